"""The clock of a stream: position in the log, number of events, and time."""

import math
from typing import NamedTuple

LONGEST_STEP = 86400.0
"""Maximum step of the stream's time per event, in seconds, so that one event with a wrong clock does not age everything."""


class Clock(NamedTuple):
    """Progress of a stream. It is passed in wherever time matters, so that the same stream leads to the same state."""

    position: int = 0
    """Position of the last line of the log, or number of the last event without a log. It keys random draws and is stored
    in rows."""
    events: int = 0
    """Number of events so far. Trends decay with it, so putting a catalogue does not age them."""
    time: float | None = None
    """Latest time of an event, which rises by at most a day per event; None before the first event with a time."""

    def at(self, position: int | None) -> "Clock":
        """Return the clock of an event at this position, by default the next one."""
        return Clock(self.position + 1 if position is None else position, self.events, self.time)

    def after(self, time: float | None) -> "Clock":
        """Return the clock after an event with this time, or without one."""
        if time is None or (self.time is not None and time <= self.time):
            return Clock(self.position, self.events + 1, self.time)
        return Clock(self.position, self.events + 1, time if self.time is None else min(time, self.time + LONGEST_STEP))

    def moment(self, time: float | None) -> float:
        """Return the given time, or the stream's time by default; −∞ if there is none."""
        if time is not None:
            return time
        return -math.inf if self.time is None else self.time
