"""A user as requests see one."""

from typing import NamedTuple

from coldstream.features.history import HistoryFields, RecentHistory
from coldstream.support.arrays import Integers


class EncodedUser(NamedTuple):
    """What a user brings to every request until the next event: features in columns, and the slots of the recent items.

    It is kept with the user and never saved. It holds as long as all that it was made of is the same.
    """

    column: bytes  # of the user's features and then of the history's, as int32 …
    value: bytes  # … and their values, as float32
    recent: Integers  # the slots of the recent items whose neighbours count, each once, the latest at the end
    history: RecentHistory
    fields: HistoryFields
    release_count: int  # of the vocabulary
    freed: int  # slots of the catalogue
    complete: bool  # whether nothing was unknown: only then it does not matter what is admitted later

    def holds(self, history: RecentHistory, fields: HistoryFields, release_count: int, freed: int) -> bool:
        """Whether it would be made the same again."""
        same = self.history is history and self.fields is fields
        return self.complete and same and self.release_count == release_count and self.freed == freed
