"""When something happens: two counts that nobody else keeps."""

from typing import NamedTuple


class Clock(NamedTuple):
    """How far a stream has come. It is passed in wherever time matters, so the same stream leads to the same state."""

    position: int = 0
    """Of the last line of the log, or of the last event where there is no log. It keys what is drawn, and stamps rows."""
    events: int = 0
    """How many events there were. Trends age by it: a catalogue that is put makes nothing older."""

    def at(self, position: int | None) -> "Clock":
        """The moment of an event with this position; the next one, where none is given."""
        return Clock(self.position + 1 if position is None else position, self.events)

    def after(self) -> "Clock":
        """The moment after an event."""
        return Clock(self.position, self.events + 1)
