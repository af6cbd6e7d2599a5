"""When something happens: counts, and the time of the stream, that nobody else keeps."""

import math
from typing import NamedTuple

LONGEST_STEP = 86400.0
"""Seconds that one event may move the time of the stream: one wrong clock must not make everything old at once."""


class Clock(NamedTuple):
    """How far a stream has come. It is passed in wherever time matters, so the same stream leads to the same state."""

    position: int = 0
    """Of the last line of the log, or of the last event where there is no log. It keys what is drawn, and stamps rows."""
    events: int = 0
    """How many events there were. Trends age by it: a catalogue that is put makes nothing older."""
    time: float | None = None
    """The latest time that an event had, in steps of a day at most; None before the first that had one."""

    def at(self, position: int | None) -> "Clock":
        """The moment of an event with this position; the next one, where none is given."""
        return Clock(self.position + 1 if position is None else position, self.events, self.time)

    def after(self, time: float | None) -> "Clock":
        """The moment after an event that had this time, or none."""
        if time is None or (self.time is not None and time <= self.time):
            return Clock(self.position, self.events + 1, self.time)
        return Clock(self.position, self.events + 1, time if self.time is None else min(time, self.time + LONGEST_STEP))

    def moment(self, time: float | None) -> float:
        """A time that was given, or else that of the stream; before any is known, it is before everything."""
        if time is not None:
            return time
        return -math.inf if self.time is None else self.time
