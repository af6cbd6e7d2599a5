"""Where a list of users goes on, though some went meanwhile: nobody is passed over who was there all the time."""

from itertools import islice
from typing import NamedTuple

from coldstream.errors import InvalidInput, shown
from coldstream.users.states import UserStates


class UserCursor(NamedTuple):
    """A place in the list, and who was before it. As a text it is what clients send back."""

    place: int
    """How many users are before it."""
    epoch: int
    """Since when those are counted who went."""
    departures: int
    """How many had gone by then."""
    user: str
    """The last before the place."""

    @classmethod
    def at(cls, users: UserStates, place: int) -> "UserCursor":
        """The cursor of a place, now."""
        last = next(islice(users, place - 1, place), "") if place else ""
        return cls(place, users.epoch, users.departures, last)

    @classmethod
    def of(cls, text: str) -> "UserCursor":
        """The inverse of `text`."""
        parts = text.split(".", 3)
        if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 17 for part in parts[:3]):
            error = InvalidInput(f"cursor must be one that a page gave, got {shown(text)}; leave it out to begin anew")
            error.field = "cursor"
            raise error
        place, epoch, departures, user = parts
        return cls(int(place), int(epoch), int(departures), user)

    @property
    def text(self) -> str:
        """The cursor as clients have it."""
        return f"{self.place}.{self.epoch}.{self.departures}.{self.user}"

    def found(self, users: UserStates) -> int:
        """The place now. Where the user has gone as well, some may come again."""
        # Whoever went was before the place at worst, so nobody is passed over.
        known = users.epoch == self.epoch and users.departures >= self.departures
        earliest = max(0, self.place - (users.departures - self.departures)) if known else 0
        if self.user not in users:
            return earliest
        start = max(0, earliest - 1)
        for place, user in enumerate(islice(users, start, self.place), start + 1):
            if user == self.user:
                return place
        return earliest  # it went, and came again behind all others
