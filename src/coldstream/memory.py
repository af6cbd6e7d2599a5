"""How much all that is learned and remembered weighs, by what it is: a function of what is known, and of nothing else.

Arrays and dictionaries grow by doubling; the costs allow for it.
"""

from typing import NamedTuple

from coldstream.costs import COLUMN, FIELD, ITEM, NEIGHBOUR, SEEN, UNPACKED_USER, USER, WINDOW
from coldstream.features.sketch import DEPTH, WIDTH
from coldstream.shared_model import SharedModel
from coldstream.user_states import MOST_UNPACKED, UserStates

_USAGE = 24
_SPARE = 4  # bytes of each factor that are there twice while an array grows


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
    """What had to go so far: values and users, evicted and expired."""

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


def _parts(shared: SharedModel, users: UserStates, pairs: int) -> dict[str, int]:
    vocabulary, catalogue, factors = shared.encoder.vocabulary, shared.catalogue, shared.hyperparameters.factors
    row = shared.machine.parameters.row_bytes + _USAGE + _SPARE * factors
    sketches = sum(limit.admit_after > 1 for limit in shared.admissions.limits.values())
    return {
        # A row that nobody has is there still, until another value takes it.
        "values": len(vocabulary) * row + vocabulary.features() * COLUMN + vocabulary.text,
        "fields": len(vocabulary.fields) * (FIELD + 16 * factors) + sketches * DEPTH * WIDTH,
        "users": len(users) * USER + min(len(users), MOST_UNPACKED) * UNPACKED_USER + users.weight,
        "history": users.seen * SEEN,
        "items": len(catalogue.ids) * (ITEM + (WINDOW if catalogue.windows.limited else 0)) + catalogue.weight,
        "neighbours": pairs * NEIGHBOUR,
    }
