"""How much all that is learned and remembered weighs, by what it is: a function of what is known, and of nothing else.

Arrays and dictionaries grow by doubling; the costs allow for it.
"""

from typing import NamedTuple

from coldstream.bounds.costs import COLUMN, FIELD, GONE, ITEM, NEIGHBOUR, SEEN, UNPACKED_USER, USER, WINDOW
from coldstream.engine.shared_model import SharedModel
from coldstream.features.sketch import DEPTH, WIDTH
from coldstream.users.states import MOST_UNPACKED, UserStates

_USAGE = 24
_SPARE = 4  # bytes of each factor that are there twice while an array grows


ITEMS_SHARE = 0.5
"""The most that items may take of a budget, and the most that rows of what only they have may. A shop's catalogue is not
given up for users who come once."""

ROWS_SHARE = 0.625
"""The most that rows may take, those of gaps included: they are filled again, and not given back."""

FIXED_SHARE = 0.875
"""The most that may be taken by what does not go for users and values: the rest is theirs, whatever else there is."""

LEAST_SHARE = 0.0625
"""What items may take in any case."""

LEAST_ROOM = 0.25
"""Of a budget, so much has to be left by what can never be given back, or it is refused."""


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
    """How many bytes there are too many that users and values take: of all, or of the rows that they have."""
    bound = shared.bounds.memory_bytes
    if bound is None:
        return 0
    rows = shared.encoder.vocabulary.features() * _row(shared) - int(bound * ROWS_SHARE)
    return max(sum(_parts(shared, users, shared.pairs).values()) - bound, rows)


def items_excess(shared: SharedModel) -> int:
    """How many bytes items take too many of a budget, with their neighbours and what only they have."""
    bound = shared.bounds.memory_bytes
    if bound is None:
        return 0
    columns = items_columns(shared)
    taken = _items(shared) + shared.pairs * NEIGHBOUR + columns * COLUMN
    left = max(int(bound * LEAST_SHARE), int(bound * FIXED_SHARE) - _rows(shared) - _fields(shared))
    return max(taken - min(int(bound * ITEMS_SHARE), left), columns * _row(shared) - int(bound * ITEMS_SHARE))


def items_columns(shared: SharedModel) -> int:
    """How many columns items have, with those that no item has any more."""
    return sum(map(shared.encoder.vocabulary.count, shared.encoder.item_fields))


def least_budget(shared: SharedModel) -> int:
    """The least budget that what is there can be brought within: rows and slots are filled again, and never given back."""
    slots = len(shared.catalogue.ids) * GONE
    return int((_rows(shared) + _fields(shared) + slots) / (1 - LEAST_ROOM))


def _parts(shared: SharedModel, users: UserStates, pairs: int) -> dict[str, int]:
    vocabulary = shared.encoder.vocabulary
    return {
        "values": _rows(shared) + vocabulary.features() * COLUMN + vocabulary.text,
        "fields": _fields(shared),
        "users": len(users) * USER + min(len(users), MOST_UNPACKED) * UNPACKED_USER + users.weight,
        "history": users.seen * SEEN,
        "items": _items(shared),
        "neighbours": pairs * NEIGHBOUR,
    }


def _row(shared: SharedModel) -> int:
    return shared.machine.parameters.row_bytes + _USAGE + _SPARE * shared.hyperparameters.factors


def _rows(shared: SharedModel) -> int:
    """All rows: one that nobody has is there still, until another value takes it."""
    return len(shared.encoder.vocabulary) * _row(shared)


def _fields(shared: SharedModel) -> int:
    own = FIELD + 16 * shared.hyperparameters.factors
    return len(shared.encoder.vocabulary.fields) * own + shared.admissions.sketches * DEPTH * WIDTH


def _items(shared: SharedModel) -> int:
    catalogue = shared.catalogue
    slots, live = len(catalogue.ids), len(catalogue)
    windows = slots * WINDOW if catalogue.windows.limited else 0
    return live * ITEM + (slots - live) * GONE + windows + catalogue.weight
