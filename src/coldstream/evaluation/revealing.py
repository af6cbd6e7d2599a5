"""Detection of target leakage: context columns that nearly determine the chosen item, or are determined by it."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from coldstream.evaluation.prequential import untested
from coldstream.events.event import Event
from coldstream.events.stream import Stream
from coldstream.support.arrays import plain

FEWEST = 30
"""Smallest number of guessed events from which a column is judged."""
TELLS = 0.5
"""Smallest share of the errors of a guess without the column that it must remove to be reported as telling the item."""
FOLLOWS = 0.9
"""Smallest share of the errors that the item must remove to be reported as telling the column.

It is close to 1, because an item may well be chosen mostly on phones, while a price belongs to the item.
"""
SURE = 4.0
"""Smallest lead of a guess over chance, in standard deviations of chance."""
MOST = 50_000
"""Largest number of events examined: the latest ones before the test."""

Row: TypeAlias = tuple[str, Any, Any]
"""A user, the given value, and the value to guess from it."""
_Guess: TypeAlias = Callable[[Mapping[Any, Any], Sequence[Any]], list[Any]]
_NOBODY_KNOWS = object()


class Revealing(NamedTuple):
    """A context column that may leak the chosen item."""

    column: str
    share: float
    """Share of correct guesses with the column (or, if `of_items` is false, with the item)."""
    chance: float
    """Share of correct guesses without it."""
    of_items: bool
    """True if the column predicts the item; false if the item predicts the column, such as a price of the item."""

    @property
    def why(self) -> str:
        """The finding, in a few words for a table."""
        without = f"{self.share:.0%} right, {self.chance:.0%} without it"
        return f"nearly tells the item: {without}" if self.of_items else f"follows from the item: {without}"

    @property
    def warning(self) -> str:
        """The finding, its consequence and the remedy, as a sentence."""
        if self.of_items:
            found = (
                f"tells which item was chosen: guessed from it alone, {self.share:.0%} are right, and"
                f" {self.chance:.0%} without it"
            )
        else:
            found = (
                f"is nearly always the same for the same item: guessed from the item, {self.share:.0%} are right, and"
                f" {self.chance:.0%} without it"
            )
        return (
            f"context column {self.column!r} {found}; if it is known only after the choice, no result with it counts:"
            f" leave it out with --ignore {quote(self.column)}"
        )


def revealing_columns(stream: Stream) -> list[Revealing]:
    """Return the context columns of a stream that nearly determine the item, or are nearly determined by it.

    Only events before the test are examined. Their first half gives the most frequent item per value of a column and the
    most frequent value per item; their second half is guessed from these: the item from the value (from the nearest value
    if the column is numeric), and the value from the item. The guess to beat is the most frequent one of the user, or of
    all users if the user is new.
    """
    events = untested(stream).events[-MOST:]
    names = dict.fromkeys(name for event in events for name in event.context)
    return [found for name in names if (found := _revealing(name, events)) is not None]


def _revealing(name: str, events: Sequence[Event]) -> Revealing | None:
    having = [(event.user, _hashable(event.context[name]), event.item) for event in events if name in event.context]
    numbers = all(type(value) in (int, float) for _, value, _ in having)
    return _judged(name, True, having, _nearest if numbers else _exact) or _judged(
        name, False, [(user, item, value) for user, value, item in having], _exact_of_known
    )


def _judged(name: str, of_items: bool, rows: Sequence[Row], guess: _Guess) -> Revealing | None:
    """Return a finding if guesses from the given values are much better than guesses without them, else None."""
    learned, tested = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    guesses = guess(_most_frequent([(given, sought) for _, given, sought in learned]), [given for _, given, _ in tested])
    own = _most_frequent([(user, sought) for user, _, sought in learned])
    overall = _most_frequent([(None, sought) for _, _, sought in learned]).get(None)
    hits = [
        (guessed == sought, own.get(user, overall) == sought)
        for (user, _, sought), guessed in zip(tested, guesses, strict=True)
        if guessed is not _NOBODY_KNOWS
    ]
    if len(hits) < FEWEST:
        return None
    share, chance = (sum(column) / len(hits) for column in zip(*hits, strict=True))
    gain, deviation = share - chance, math.sqrt(chance * (1 - chance) / len(hits))
    enough = (TELLS if of_items else FOLLOWS) * (1 - chance)
    return Revealing(name, share, chance, of_items) if gain >= enough and gain > SURE * deviation else None


def _exact(known: Mapping[Any, Any], given: Sequence[Any]) -> list[Any]:
    return [known.get(value) for value in given]


def _exact_of_known(known: Mapping[Any, Any], given: Sequence[Any]) -> list[Any]:
    """Guess as `_exact` does, but skip given values that are new: the price of an item never chosen cannot be known."""
    return [known.get(value, _NOBODY_KNOWS) for value in given]


def _nearest(known: Mapping[Any, Any], given: Sequence[Any]) -> list[Any]:
    if not known:
        return [None] * len(given)
    values = np.array(sorted(known), np.float64)
    sought = np.array(given, np.float64)
    right = np.clip(np.searchsorted(values, sought), 1, max(len(values) - 1, 1))
    right = np.minimum(right, len(values) - 1)
    left = np.maximum(right - 1, 0)
    nearer = np.where(np.abs(values[left] - sought) <= np.abs(values[right] - sought), left, right)
    ordered = [known[value] for value in sorted(known)]
    return [ordered[place] for place in nearer.tolist()]


def _most_frequent(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return the most frequent second value for each first value."""
    counts: dict[Any, Counter[Any]] = {}
    for first, second in pairs:
        counts.setdefault(first, Counter())[second] += 1
    return {first: own.most_common(1)[0][0] for first, own in counts.items()}


def _hashable(raw: Any) -> Any:
    value = plain(raw)
    return tuple(sorted(map(repr, value))) if isinstance(value, list) else value
