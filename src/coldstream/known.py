"""What is known: the items, the users, the schema, and how much of everything there is."""

from datetime import datetime
from typing import Any, NamedTuple

from coldstream.bounds.bounds import Bounds
from coldstream.catalogue.slot_table import Place
from coldstream.config import Hyperparameters
from coldstream.engine.memory import Memory, memory_of
from coldstream.engine.shared_model import SharedModel
from coldstream.errors import UnknownId
from coldstream.events.availability import Availability
from coldstream.events.clock import Clock
from coldstream.events.event import checked_id, checked_time
from coldstream.features.schema import Schema
from coldstream.lists.inspection import Inspection
from coldstream.model.renewal import RENEWED
from coldstream.support.arrays import Flags, Longs, plain
from coldstream.users.states import UserState, UserStates


class Size(NamedTuple):
    """How many items, users and features are known."""

    items: int
    users: int
    features: int
    arrivals: int
    """Items that ever came."""


class Known:
    """What a recommender knows. Nothing here changes anything."""

    _shared: SharedModel
    _users: UserStates
    _clock: Clock

    @property
    def schema(self) -> Schema:
        """The fields in use: those declared, those the preset added, and context fields admitted on the way."""
        return self._shared.encoder.schema

    @property
    def hyperparameters(self) -> Hyperparameters:
        """All hyperparameters in use."""
        return self._shared.hyperparameters

    @property
    def bounds(self) -> Bounds:
        """All bounds in use, but for those of fields, which the schema has."""
        return self._shared.bounds

    @property
    def seed(self) -> int:
        """The seed that every random number follows from."""
        return self._shared.machine.seed

    @property
    def events(self) -> int:
        """How many events there were: learned, or observed."""
        return self._clock.events

    @property
    def position(self) -> int:
        """The position in the log of the last event, or its number where there is no log."""
        return self._clock.position

    @property
    def renewed_at(self) -> int | None:
        """The position of the event at which choices had become so surprising that AdaGrad's sums began anew, if ever."""
        after = int(self._shared.machine.parameters.optimizer.surprise[RENEWED])
        return after - 1 if after else None

    @property
    def size(self) -> Size:
        """How much is known."""
        catalogue, vocabulary = self._shared.catalogue, self._shared.encoder.vocabulary
        return Size(len(catalogue), len(self._users), vocabulary.features(), catalogue.arrivals)

    @property
    def memory(self) -> Memory:
        """What all of it weighs, by what it is; and what had to be left out or to go."""
        return memory_of(self._shared, self._users)

    def items(self) -> list[str]:
        """The ids of all items, in order of registration."""
        return self._shared.catalogue.registered()

    def users(self) -> list[str]:
        """The ids of all users, in order of registration."""
        return list(self._users)

    def item(self, item: str) -> dict[str, Any]:
        """An item's attributes as they were put."""
        return {name: plain(raw) for name, raw in self._shared.catalogue.attributes[self._slot(item)].items()}

    def availability(self, item: str) -> Availability:
        """When an item may be recommended, as it was put."""
        return self._shared.catalogue.windows.of(self._slot(item))

    def is_available(self, item: str, time: float | datetime | None = None) -> bool:
        """Whether `recommend` could return an item at a `time`; without one, at the time of the stream."""
        slot, excluded = self._slot(item), self._unavailable(checked_time(time))
        return not len(excluded) or not excluded[slot]

    def user(self, user: str) -> dict[str, Any]:
        """A user's attributes as they were put."""
        return {name: plain(raw) for name, raw in self._user(user).attributes.items()}

    def place(self, item: str) -> Place:
        """Where an item is kept, also if it went lately."""
        catalogue = self._shared.catalogue
        found = catalogue.slots([checked_id("item", item)])
        slot = found[0] if found else self._slot(item)
        return catalogue.place(slot)

    def arrivals_by_place(self) -> Longs:
        """By place, which of all arrivals the item was that is kept there; to be read only."""
        return self._shared.catalogue.arrivals_by_slot()

    def has_item(self, item: str) -> bool:
        """Whether an item is in the catalogue."""
        return item in self._shared.catalogue

    def has_user(self, user: str) -> bool:
        """Whether anything is known of a user."""
        return user in self._users

    def has_past(self, user: str) -> bool:
        """Whether a user ever did anything that is remembered."""
        return user in self._users and bool(len(self._users[user].seen) or self._users[user].recent.items)

    def sessions(self, user: str) -> tuple[str, ...]:
        """The sessions that were folded into a user."""
        return self._users.sessions.get(user, ())

    def has_session(self, session: str) -> bool:
        """Whether a session was folded into any user who is known."""
        return any(session in own for own in self._users.sessions.values())

    @property
    def inspection(self) -> Inspection:
        """A closer look at what was learned: features by name, which are alike, which have changed."""
        return Inspection(self._shared, self._users, self._clock.events)

    def _slot(self, item: str) -> int:
        if not isinstance(item, str) or item not in self._shared.catalogue:
            checked_id("item", item)
            raise UnknownId(f"item {item!r} is not in the catalogue; put_item({item!r}, …) first")
        return self._shared.catalogue.slot(item)

    def _user(self, user: str) -> UserState:
        if not isinstance(user, str) or user not in self._users:
            checked_id("user", user)
            raise UnknownId(f"user {user!r} is not known; put_user({user!r}, …) first")
        return self._users[user]

    def _unavailable(self, time: float | None) -> Flags:
        """Per slot, whether its item may not be recommended at a time; empty where all may."""
        catalogue = self._shared.catalogue
        return catalogue.windows.excluded(self._clock.moment(time), len(catalogue.ids))
