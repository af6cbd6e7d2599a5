"""The cached encoding of a user, used by requests."""

from typing import NamedTuple

from coldstream.features.history import HistoryFields, RecentHistory
from coldstream.support.arrays import Integers


class EncodedUser(NamedTuple):
    """Cached encoding of a user: features as columns, and slots of recent items.

    It serves all requests until the next event.

    It is kept in memory with the user state and never saved. `holds` tells whether it is still valid.
    """

    column: bytes  # int32 columns of the user's features, then of the history features
    value: bytes  # float32 values of these columns
    recent: Integers  # slots of the recent items whose neighbours count, each once, the latest last
    history: RecentHistory
    fields: HistoryFields
    release_count: int  # of the vocabulary, when this was encoded
    freed: int  # slots of the catalogue freed so far, when this was encoded
    complete: bool  # whether every feature was known; only then later admissions change nothing

    def holds(self, history: RecentHistory, fields: HistoryFields, release_count: int, freed: int) -> bool:
        """Return whether encoding the user now would give the same result."""
        same = self.history is history and self.fields is fields
        return self.complete and same and self.release_count == release_count and self.freed == freed
