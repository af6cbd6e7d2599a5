"""A user as requests see one."""

from typing import NamedTuple

from coldstream.arrays import Integers
from coldstream.features.history import History, Past


class Portrait(NamedTuple):
    """What a user brings to every request until the next event: features in columns, and the slots of the last items.

    It is kept with the user and never saved. It holds as long as all that it was made of is the same.
    """

    column: bytes  # of the user's features and then of the past's, as int32 …
    value: bytes  # … and their values, as float32
    window: Integers  # the slots of the last items whose neighbours count, each once, the latest at the end
    past: Past
    history: History
    departures: int  # of the vocabulary
    complete: bool  # whether nothing was unknown: only then it does not matter what is admitted later

    def holds(self, past: Past, history: History, departures: int) -> bool:
        """Whether it would be made the same again."""
        return self.complete and self.past is past and self.history is history and self.departures == departures
