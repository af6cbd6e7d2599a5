"""How much all that is learned and remembered weighs, by what it is: a function of what is known, and of nothing else.

Arrays and dictionaries grow by doubling; the costs allow for it.
"""

from typing import NamedTuple

from coldstream.costs import COLUMN, FIELD, GONE, ITEM, NEIGHBOUR, SEEN, UNPACKED_USER, USER, WINDOW
from coldstream.features.sketch import DEPTH, WIDTH
from coldstream.shared_model import SharedModel
from coldstream.user_states import MOST_UNPACKED, UserStates

_USAGE = 24
_SPARE = 4  # bytes of each factor that are there twice while an array grows


ITEMS_SHARE = 0.5
"""The most that items may take of a budget. A shop's catalogue is not given up for users who come once."""


class Memory(NamedTuple):
    """What is used, and what had to be left out or to go to keep within bounds."""

    used: int
    """Bytes, by our own costs: at least what it takes."""
    bound: int | None
    """Bytes; None where there is no budget."""
    parts: dict[str, int]
    """Bytes by what they are for: values, fields, users, history, items, neighbours."""
    refused: dict[str, int]
    """What was new and was left out, by reason: `full`, `rare`, `many` or `fields`."""
    gone: dict[str, int]
    """What had to go so far: values, users and items, evicted and expired."""

    @property
    def has_lost_users(self) -> bool:
        """Whether users had to go, so that somebody who is not known may have been."""
        return any(what.startswith("users") for what in self.gone)


def memory_of(shared: SharedModel, users: UserStates) -> Memory:
    """What is used now."""
    parts = _parts(shared, users, shared.catalogue.pairs())
    refused = {reason: count for reason, count in sorted(shared.admissions.refused.items()) if count}
    return Memory(sum(parts.values()), shared.bounds.memory_bytes, parts, refused, dict(sorted(shared.gone.items())))


def excess(shared: SharedModel, users: UserStates) -> int:
    """How many bytes there are too many."""
    bound = shared.bounds.memory_bytes
    return 0 if bound is None else sum(_parts(shared, users, shared.pairs).values()) - bound


def items_excess(shared: SharedModel) -> int:
    """How many bytes items take too many of a budget, with their neighbours."""
    bound = shared.bounds.memory_bytes
    return 0 if bound is None else _items(shared) + shared.pairs * NEIGHBOUR - int(bound * ITEMS_SHARE)


def _parts(shared: SharedModel, users: UserStates, pairs: int) -> dict[str, int]:
    vocabulary, factors = shared.encoder.vocabulary, shared.hyperparameters.factors
    row = shared.machine.parameters.row_bytes + _USAGE + _SPARE * factors
    return {
        # A row that nobody has is there still, until another value takes it.
        "values": len(vocabulary) * row + vocabulary.features() * COLUMN + vocabulary.text,
        "fields": len(vocabulary.fields) * (FIELD + 16 * factors) + shared.admissions.sketches * DEPTH * WIDTH,
        "users": len(users) * USER + min(len(users), MOST_UNPACKED) * UNPACKED_USER + users.weight,
        "history": users.seen * SEEN,
        "items": _items(shared),
        "neighbours": pairs * NEIGHBOUR,
    }


def _items(shared: SharedModel) -> int:
    catalogue = shared.catalogue
    slots, live = len(catalogue.ids), len(catalogue)
    windows = slots * WINDOW if catalogue.windows.limited else 0
    return live * ITEM + (slots - live) * GONE + windows + catalogue.weight
