"""Several requests in one go: encoded one by one, answered by one call into machine code."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from coldstream.catalogue.answers import Answers, Questions, answer
from coldstream.features.sparse import Sparse
from coldstream.features.users import User
from coldstream.knowledge import Knowledge
from coldstream.model.compiled import direct

_answer = direct(answer)


class Prepared(NamedTuple):
    """One request, checked and encoded."""

    x: Sparse
    user: User
    n: int
    left_out: bool
    """Whether what the user had is left out."""


def best_of_all(known: Knowledge, prepared: Sequence[Prepared]) -> list[list[tuple[str, float]]]:
    """The best items of each request and their scores, best first."""
    asked = _questions(known, prepared)
    first = asked.offset[3].tolist()
    out = Answers(np.zeros(first[-1], np.int32), np.empty(first[-1]), np.empty(len(prepared), np.int32))
    _answer(known.machine.parameters.theta, known.catalogue.items, known.catalogue.scan(), known.events, asked, out)
    ids = map(known.catalogue.ids.__getitem__, out.slot.tolist()) if len(known.catalogue) else ()
    named = list(zip(ids, out.total.tolist(), strict=True))
    return [named[start : start + found] for start, found in zip(first, out.found.tolist(), strict=False)]


def _questions(known: Knowledge, prepared: Sequence[Prepared]) -> Questions:
    persons, items = [known.person(one.user) for one in prepared], len(known.catalogue)
    sizes = (
        [len(one.x.column) for one in prepared],
        [len(person.past) for person in persons],
        [len(person.had) for person in persons],
        [min(one.n, items) for one in prepared],
    )
    joined = np.concatenate
    return Questions(
        np.array([list(accumulate(own, initial=0)) for own in sizes], np.int32),
        Sparse(joined([one.x.column for one in prepared]), joined([one.x.value for one in prepared])),
        joined([person.past for person in persons]),
        joined([person.had for person in persons]),
        joined([person.times for person in persons]),
        np.array([one.left_out for one in prepared], np.int32),
    )
