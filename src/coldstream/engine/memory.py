"""Memory accounting: the estimated bytes of all state by purpose, a function of the state alone.

Arrays and dictionaries grow by doubling; the cost constants allow for it.
"""

from typing import NamedTuple

from coldstream.bounds.costs import COLUMN, FIELD, GONE, ITEM, NEIGHBOUR, SEEN, UNPACKED_USER, USER, WINDOW
from coldstream.engine.shared_model import SharedModel
from coldstream.features.sketch import DEPTH, WIDTH
from coldstream.users.states import MOST_UNPACKED, UserStates

_USAGE = 24
_SPARE = 4  # bytes of each factor that are held twice while an array grows


ITEMS_SHARE = 0.5
"""Largest share of a memory budget for items, and for the rows of features that only items have.

It keeps a shop's catalogue from being evicted for users who come once.
"""

ROWS_SHARE = 0.625
"""Largest share of a memory budget for rows, empty ones included: they are reused, and never given back."""

FIXED_SHARE = 0.875
"""Largest share of a memory budget for items, rows and fields together; the rest is kept for users and values."""

LEAST_SHARE = 0.0625
"""Least share of a memory budget that items may use, whatever else there is."""

LEAST_ROOM = 0.25
"""Share of a memory budget that must be left beside memory that can never be given back; smaller budgets are refused."""


class Memory(NamedTuple):
    """Memory in use, and counts of what was refused or evicted to keep within bounds."""

    used: int
    """Estimated bytes in use, an upper bound of what is taken."""
    bound: int | None
    """Memory budget in bytes; None where there is none."""
    parts: dict[str, int]
    """Bytes by purpose: values, fields, users, history, items, neighbours."""
    refused: dict[str, int]
    """Number of new values and fields not admitted, by reason: `full`, `rare`, `many` or `fields`."""
    gone: dict[str, int]
    """Number of values, users and items removed so far, by kind and by whether evicted or expired."""

    @property
    def has_lost_users(self) -> bool:
        """Whether users were evicted or expired, so that an unknown user may have been known before."""
        return any(what.startswith("users") for what in self.gone)


def memory_of(shared: SharedModel, users: UserStates) -> Memory:
    """Return the memory in use now."""
    parts = _parts(shared, users, shared.catalogue.pairs())
    refused = {reason: count for reason, count in sorted(shared.admissions.refused.items()) if count}
    return Memory(sum(parts.values()), shared.bounds.memory_bytes, parts, refused, dict(sorted(shared.gone.items())))


def excess(shared: SharedModel, users: UserStates) -> int:
    """Return the bytes beyond the budget that evicting users and values must free: of the total, or of rows in use."""
    bound = shared.bounds.memory_bytes
    if bound is None:
        return 0
    rows = shared.encoder.vocabulary.features() * _row(shared) - int(bound * ROWS_SHARE)
    return max(sum(_parts(shared, users, shared.pairs).values()) - bound, rows)


def items_excess(shared: SharedModel) -> int:
    """Return the bytes that items, their neighbours and their own columns use beyond their share of the budget."""
    bound = shared.bounds.memory_bytes
    if bound is None:
        return 0
    columns = items_columns(shared)
    taken = _items(shared) + shared.pairs * NEIGHBOUR + columns * COLUMN
    left = max(int(bound * LEAST_SHARE), int(bound * FIXED_SHARE) - _rows(shared) - _fields(shared))
    return max(taken - min(int(bound * ITEMS_SHARE), left), columns * _row(shared) - int(bound * ITEMS_SHARE))


def items_columns(shared: SharedModel) -> int:
    """Return the number of columns of items' fields, with those that no item has any more."""
    return sum(map(shared.encoder.vocabulary.count, shared.encoder.item_fields))


def least_budget(shared: SharedModel) -> int:
    """Return the least budget in bytes that can still be met: rows and slots are reused, and never given back."""
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
    """Return the bytes of all rows: an empty one is kept until another value takes it."""
    return len(shared.encoder.vocabulary) * _row(shared)


def _fields(shared: SharedModel) -> int:
    own = FIELD + 16 * shared.hyperparameters.factors
    return len(shared.encoder.vocabulary.fields) * own + shared.admissions.sketches * DEPTH * WIDTH


def _items(shared: SharedModel) -> int:
    catalogue = shared.catalogue
    slots, live = len(catalogue.ids), len(catalogue)
    windows = slots * WINDOW if catalogue.windows.limited else 0
    return live * ITEM + (slots - live) * GONE + windows + catalogue.weight
