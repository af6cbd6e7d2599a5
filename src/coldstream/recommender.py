"""`Recommender`, the public class: put items and users, recommend, learn, explain, forget, save."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from coldstream.bounds.bounds import Bounds
from coldstream.config import Hyperparameters
from coldstream.engine.engine import Engine
from coldstream.engine.memory import Memory
from coldstream.errors import InvalidInput, InvalidSnapshot, UnknownId, shown
from coldstream.events.arguments import checked_count, checked_events, checked_items, checked_pairs
from coldstream.events.availability import Availability
from coldstream.events.event import Event, checked_id, checked_time
from coldstream.features.encoder import ItemMemo
from coldstream.features.fields import Field
from coldstream.features.frames import Request, events_of, frame_of, is_frame, items_of, requests_of, users_of
from coldstream.features.schema import Schema
from coldstream.lists.explanation import Explanation, explained
from coldstream.lists.inspection import Inspection
from coldstream.lists.non_personalized import newest, similar, trending
from coldstream.lists.rules import Rules
from coldstream.lists.serving import Recommendation, Serving
from coldstream.model.factorization_machine import resolve_hyperparameters
from coldstream.model.renewal import RENEWED
from coldstream.scoring.filters import Predicate
from coldstream.scoring.ranking import Rank
from coldstream.snapshots.archive import read_snapshot, write_snapshot
from coldstream.snapshots.increments import is_increment
from coldstream.support.arrays import plain
from coldstream.support.memory_tuning import collection_paused

__all__ = ["Recommendation", "Recommender", "Size"]

DEFAULT_BOUNDS = Bounds()
"""The bounds of a recommender that is given none."""

MAX_REQUESTS_SCORED_TOGETHER = 64
"""Requests that `recommend_many` scores at once: more do not make it faster, and the scores of all are in memory."""


class Size(NamedTuple):
    """How many items, users and features are known."""

    items: int
    users: int
    features: int
    arrivals: int
    """Items that were ever added."""


class Recommender:
    """Recommend items to users in a context, and learn from every event the moment it happens.

    Anything that raises a `ColdstreamError` has changed nothing. The methods that only read (`recommend`, `rank`,
    `predict`, `explain`, the lists and the properties) never change anything.

    Parameters
    ----------
    schema
        The fields of users, items and contexts; `Schema.from_toml(path)` reads them from a file.
    preset
        `"default"`, which is meant to recommend well; `"paper"`, the published method; or `Hyperparameters`.
    seed
        All random numbers follow from it: equal seeds and equal calls give equal bits.
    bounds
        Limits on memory and on what is remembered.
    hyperparameters
        Changes to the preset, by name, such as `factors=64`.

    Raises
    ------
    InvalidInput
        An argument is not what it should be; the message names it, its value and the remedy.

    Examples
    --------
    >>> from coldstream import Categories, Event, Id, Recommender, Schema
    >>> recommender = Recommender(Schema(user=[Id()], item=[Id(), Categories("genre")]), seed=7)
    >>> recommender.put_items({"m50": {"genre": ["Sci-Fi"]}, "m51": {"genre": ["Drama"]}, "m52": {"genre": ["Sci-Fi"]}})
    >>> recommender.learn(Event("u1", "m50"))
    >>> [item for item, score in recommender.recommend("u1", n=1)]
    ['m52']
    """

    engine: Engine
    """What the service and the learners of a cluster build on. It may change with any release."""
    serving: Serving
    """Encoded requests and their answers, for the service. It may change with any release."""

    def __init__(
        self,
        schema: Schema,
        preset: str | Hyperparameters = "default",
        seed: int = 0,
        bounds: Bounds = DEFAULT_BOUNDS,
        **hyperparameters: Any,
    ) -> None:
        if not isinstance(schema, Schema):
            raise InvalidInput(f"schema must be a Schema, got {shown(schema)}; use Schema.from_toml(path)")
        if not isinstance(bounds, Bounds):
            raise InvalidInput(f"bounds must be Bounds, got {shown(bounds)}; use Bounds(memory='2 GiB')")
        self._hold(Engine(schema, resolve_hyperparameters(preset, **hyperparameters), seed, bounds))

    def _hold(self, engine: Engine) -> None:
        self.engine, self.serving = engine, Serving(engine)

    def __repr__(self) -> str:
        size, h = self.size, self.hyperparameters
        known = f"{size.items:,} items, {size.users:,} users, {size.features:,} features, {self.events:,} events"
        return f"<Recommender: {known}; loss={h.loss!r}, factors={h.factors}, seed={self.seed}>"

    # What is known

    @property
    def schema(self) -> Schema:
        """The fields in use: those declared, those the preset added, and context fields admitted from events.

        >>> from coldstream import Id, Number, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id(), Number("price")]), preset="paper")
        >>> [field.name for field in recommender.schema.item]
        ['id', 'price']
        """
        return self.engine.schema

    @property
    def hyperparameters(self) -> Hyperparameters:
        """All hyperparameters in use.

        >>> from coldstream import Id, Recommender, Schema
        >>> Recommender(Schema(user=[Id()], item=[Id()]), factors=8).hyperparameters.factors
        8
        """
        return self.engine.shared.hyperparameters

    @property
    def bounds(self) -> Bounds:
        """All bounds in use, except the limits of single fields, which the schema holds.

        >>> from coldstream import Bounds, Id, Recommender, Schema
        >>> Recommender(Schema(user=[Id()], item=[Id()]), bounds=Bounds(memory="1 GiB")).bounds.memory
        '1 GiB'
        """
        return self.engine.shared.bounds

    @property
    def seed(self) -> int:
        """The seed that all random numbers follow from.

        >>> from coldstream import Id, Recommender, Schema
        >>> Recommender(Schema(user=[Id()], item=[Id()]), seed=7).seed
        7
        """
        return self.engine.shared.machine.seed

    @property
    def events(self) -> int:
        """How many events were learned or observed.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn([Event("u1", "a"), Event("u2", "b")])
        >>> recommender.events
        2
        """
        return self.engine.clock.events

    @property
    def position(self) -> int:
        """The position in the log of the last event, or the number of events where there is no log.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn(Event("u1", "a"), position=17)
        >>> recommender.position
        17
        """
        return self.engine.clock.position

    @property
    def renewed_at(self) -> int | None:
        """The position of the event at which taste had changed so much that learning rates were reset; None if never.

        >>> from coldstream import Id, Recommender, Schema
        >>> print(Recommender(Schema(user=[Id()], item=[Id()])).renewed_at)
        None
        """
        after = int(self.engine.shared.machine.parameters.optimizer.surprise[RENEWED])
        return after - 1 if after else None

    @property
    def size(self) -> Size:
        """How many items, users and features are known.

        >>> from coldstream import Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.put_items({"a": {}, "b": {}})
        >>> recommender.size.items
        2
        """
        catalogue, vocabulary = self.engine.shared.catalogue, self.engine.shared.encoder.vocabulary
        return Size(len(catalogue), len(self.engine.users), vocabulary.features(), catalogue.arrivals)

    @property
    def memory(self) -> Memory:
        """How many bytes are in use, by purpose, and what was refused or evicted to keep within the bounds.

        >>> from coldstream import Bounds, Id, Recommender, Schema
        >>> memory = Recommender(Schema(user=[Id()], item=[Id()]), bounds=Bounds(memory="1 GiB")).memory
        >>> memory.used < memory.bound
        True
        """
        return self.engine.memory

    @property
    def inspection(self) -> Inspection:
        """A closer look at what was learned: features by name, the features nearest to one, the largest changes.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn([Event("u1", "a"), Event("u1", "b")])
        >>> len(recommender.inspection.nearest("item.id=a", n=1))
        1
        """
        return Inspection(self.engine.shared, self.engine.users, self.engine.clock.events)

    def items(self) -> list[str]:
        """Return the ids of all items, in order of registration.

        >>> from coldstream import Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.put_items({"a": {}, "b": {}})
        >>> recommender.items()
        ['a', 'b']
        """
        return self.engine.shared.catalogue.registered()

    def users(self) -> list[str]:
        """Return the ids of all users, in order of registration.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn(Event("u1", "a"))
        >>> recommender.users()
        ['u1']
        """
        return list(self.engine.users)

    def item(self, item: str) -> dict[str, Any]:
        """Return the attributes of an item as they were put, or raise `UnknownId`.

        >>> from coldstream import Id, Number, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id(), Number("price")]))
        >>> recommender.put_item("a", {"price": 9.5})
        >>> recommender.item("a")
        {'price': 9.5}
        """
        catalogue = self.engine.shared.catalogue
        return {name: plain(raw) for name, raw in catalogue.attributes[self.engine.slot(item)].items()}

    def user(self, user: str) -> dict[str, Any]:
        """Return the attributes of a user as they were put, or raise `UnknownId`.

        >>> from coldstream import Category, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id(), Category("country")], item=[Id()]))
        >>> recommender.put_user("u1", {"country": "at"})
        >>> recommender.user("u1")
        {'country': 'at'}
        """
        return {name: plain(raw) for name, raw in self.engine.user(user).attributes.items()}

    def has_item(self, item: str) -> bool:
        """Return whether an item is in the catalogue.

        >>> from coldstream import Id, Recommender, Schema
        >>> Recommender(Schema(user=[Id()], item=[Id()])).has_item("a")
        False
        """
        return self.engine.has_item(item)

    def has_user(self, user: str) -> bool:
        """Return whether anything is known of a user.

        >>> from coldstream import Id, Recommender, Schema
        >>> Recommender(Schema(user=[Id()], item=[Id()])).has_user("u1")
        False
        """
        return self.engine.has_user(user)

    def availability(self, item: str) -> Availability:
        """Return when an item may be recommended, as it was put, or raise `UnknownId`.

        >>> from coldstream import Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.put_item("a", hidden=True)
        >>> recommender.availability("a").hidden
        True
        """
        return self.engine.shared.catalogue.windows.of(self.engine.slot(item))

    def is_available(self, item: str, time: float | datetime | None = None) -> bool:
        """Return whether `recommend` could return an item at a `time`; without one, at the time of the last event.

        >>> from coldstream import Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.put_item("a", available_from=1_800_000_000)
        >>> recommender.is_available("a", time=1_700_000_000)
        False
        """
        slot, excluded = self.engine.slot(item), self.engine.unavailable(checked_time(time))
        return not len(excluded) or not excluded[slot]

    # Users, items and fields

    def put_user(self, user: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a user, or replace the attributes of one. What was learned of the id stays.

        >>> from coldstream import Category, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id(), Category("country")], item=[Id()]))
        >>> recommender.put_user("u1", {"country": "at"})
        """
        self.put_users([(user, attributes)])

    def put_users(
        self, users: Iterable[tuple[str, Mapping[str, Any] | None]] | Any, columns: Mapping[str, str] | None = None
    ) -> None:
        """Add many users, or replace their attributes. All are taken, or none.

        `users` are pairs of id and attributes, a mapping from id to attributes, or a data frame of pandas, polars or Arrow
        with a column `user` and a column for each attribute. `columns` maps our names to those of the frame.

        >>> from coldstream import Category, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id(), Category("country")], item=[Id()]))
        >>> recommender.put_users({"u1": {"country": "at"}, "u2": {"country": "ch"}})
        """
        if is_frame(users):
            users = users_of(users, self.schema, columns)
        with collection_paused():
            pairs = checked_pairs("users", users)
            self.engine.put_users([(user, *self.engine.described_user(user, given)) for user, given in pairs])

    def put_item(
        self,
        item: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        available_from: float | datetime | None = None,
        available_until: float | datetime | None = None,
        hidden: bool = False,
    ) -> None:
        """Add an item, or replace its attributes and its availability. What was learned of the id stays.

        The item may be recommended from `available_from` on and until `available_until`, where these are given, and not
        while it is `hidden`.

        >>> from coldstream import Id, Number, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id(), Number("price")]))
        >>> recommender.put_item("a", {"price": 9.5}, available_until=1_800_000_000)
        """
        availability = Availability.of(item, available_from, available_until, hidden)
        self.engine.put_items([self.engine.described_item(item, attributes, availability, {})])

    def put_items(
        self,
        items: Iterable[tuple[str, Mapping[str, Any] | None] | tuple[str, Mapping[str, Any] | None, Availability | None]]
        | Any,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        """Add many items, or replace their attributes and availability. All are taken, or none.

        `items` are pairs of id and attributes, perhaps with an `Availability` as a third part; a mapping from id to
        attributes; or a data frame with a column `item`, a column for each attribute, and perhaps `available_from`,
        `available_until` and `hidden`. `columns` maps our names to those of the frame.

        >>> from coldstream import Availability, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.put_items([("a", {}), ("b", {}, Availability(hidden=True))])
        """
        if is_frame(items):
            items = items_of(items, self.schema, columns)
        memo: ItemMemo = {}
        with collection_paused():
            self.engine.put_items([self.engine.described_item(*one, memo) for one in checked_items(items)])

    def remove_item(self, item: str) -> None:
        """Remove an item from the catalogue and forget what was learned of its id, or raise `UnknownId`.

        >>> from coldstream import Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.put_item("a")
        >>> recommender.remove_item("a")
        """
        if not self.has_item(checked_id("item", item)):
            raise UnknownId(f"item {item!r} is not in the catalogue; there is nothing to remove")
        self.engine.remove_item(item)

    def forget_user(self, user: str) -> None:
        """Forget a user's attributes, history and everything learned of the id, or raise `UnknownId`.

        What the user's events taught about items and about values that other people share stays learned.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn(Event("u1", "a"))
        >>> recommender.forget_user("u1")
        """
        if not self.has_user(checked_id("user", user)):
            raise UnknownId(f"user {user!r} is not known; there is nothing to forget")
        self.engine.forget_user(user)

    def merge_user(self, session: str, user: str) -> None:
        """Move the past of a `session` to a `user` who has logged in, and forget the session.

        The session is the id that events had before the login. Its last items follow those of the user, and what it has
        seen the user has seen. Raises `UnknownId` where nothing is known of the session.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn(Event("session-8", "a"))
        >>> recommender.merge_user("session-8", "u1")
        >>> recommender.users()
        ['u1']
        """
        self.engine.check_merge(session, user)
        self.engine.merge_user(session, user)

    def add_context(self, *fields: Field) -> None:
        """Declare context `fields` while the stream goes on.

        >>> from coldstream import Category, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.add_context(Category("device"))
        """
        self.engine.take_schema(self.schema.with_context(*fields))

    def add_fields(self, fields: Mapping[str, Sequence[Field]]) -> None:
        """Declare `fields` of users, items or the context while the stream goes on.

        A field in use stays as it is. One that is declared differently, or of a kind that counts from the first event on,
        is refused.

        >>> from coldstream import Category, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.add_fields({"item": [Category("brand")]})
        """
        self.engine.take_schema(self.engine.check_fields(fields))

    def change_bounds(self, bounds: Bounds) -> None:
        """Go on within other `bounds`; what does not fit is evicted at once.

        A memory budget that is too small for what can never be given back is refused.

        >>> from coldstream import Bounds, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.change_bounds(Bounds(memory="2 GiB"))
        """
        self.engine.check_bounds(bounds)
        self.engine.follow_bounds(bounds)

    # Learning

    def train(
        self, events: Iterable[Event] | Any, epochs: int | None = None, columns: Mapping[str, str] | None = None
    ) -> None:
        """Learn from past events, given in order of time, in as many reshuffled passes as there are `epochs`.

        Histories, trends and neighbours end up as if the events had been learned one by one. The events may be a data
        frame, as in `learn`, with `columns` as there. All are learned, or none.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.train([Event("u1", "a"), Event("u2", "b")], epochs=3)
        """
        if is_frame(events):
            events = events_of(events, self.schema, columns)
        epochs = self.hyperparameters.epochs if epochs is None else checked_count("epochs", epochs)
        given = checked_events(events)
        if given:
            self.engine.train(given, epochs)

    def learn(
        self,
        events: Event | Iterable[Event] | Any,
        *,
        position: int | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        """Learn from an event, or from many in their order; new users, items and values are admitted.

        `position` is the event's position in a log; without one, events are numbered. Random numbers depend on it, so
        replaying a log gives the same bits. Of many events all are learned, or none.

        Many events may be a data frame of pandas, polars or Arrow with columns `user`, `item`, perhaps `time`, and the
        context fields of the schema; other columns are not read. `columns` maps our names to those of the frame,
        `{"user": "customer_id"}`, and names context fields that the schema does not declare.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn(Event("u1", "a", time=1_700_000_000, context={"device": "phone"}))
        """
        if is_frame(events):
            events = events_of(events, self.schema, columns)
        if isinstance(events, Event):
            self.engine.learn(events, position)
        elif position is not None:
            raise InvalidInput(f"position must be left out for many events, got {shown(position)}; learn them one by one")
        else:
            self.engine.learn_many(events)

    def observe(self, event: Event, *, position: int | None = None) -> None:
        """Add an event to its user's past and to trends, without changing any parameter; `position` is that of `learn`.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.observe(Event("u1", "a"))
        """
        self.engine.observe(event, position)

    # Recommending

    def recommend(
        self,
        user: str | None,
        n: int = 10,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
        exclude_seen: bool | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
        rules: Rules | None = None,
        history: Iterable[str] | None = None,
    ) -> list[Recommendation]:
        """Return the best `n` items of the whole catalogue for a user in a context, best first; fewer where fewer are left.

        Parameters
        ----------
        user
            May be unknown, or None.
        n
            The length of the list.
        context
            The context of the request, by field.
        time
            When the request is made; without it, the time of the last event. Items that are hidden or not available then
            are left out.
        attributes
            Attributes of the user that take precedence in this request.
        exclude_seen
            Whether to leave out what the user had; without it, what the schema says.
        allow, deny
            Ids of the only items that may, and of items that may not, be returned.
        where
            Attributes that items must have: a mapping from field to a value, to a list of values of which one must match,
            or to conditions (`any`, `all`, `not`, `min`, `max`). A function as `where` gets the attributes of each item.
        rules
            Boosts, caps, pins and diversity.
        history
            For a visitor without a user: the ids of the items so far, the latest last.

        Examples
        --------
        >>> from coldstream import Category, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id(), Category("brand")]))
        >>> recommender.put_items({"a": {"brand": "x"}, "b": {"brand": "y"}})
        >>> [item for item, score in recommender.recommend("u1", where={"brand": "y"})]
        ['b']
        """
        request = self.serving.encode_request(
            user,
            n,
            context=context,
            time=time,
            attributes=attributes,
            exclude_seen=exclude_seen,
            allow=allow,
            deny=deny,
            where=where,
            history=history,
        )
        if rules is None:
            return self.serving.recommend_batch([request])[0]
        return self.serving.recommend_ruled(request, rules)

    def recommend_many(
        self,
        requests: Iterable[str | None] | Any,
        n: int = 10,
        *,
        columns: Mapping[str, str] | None = None,
        exclude_seen: bool | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
    ) -> Any:
        """Return what `recommend` answers to many requests: a list for each of many users.

        `requests` may also be a data frame with a column `user`, perhaps `time`, and context fields. The answer is then one
        frame of the same library with the columns `request` (the number of the row), `user`, `rank` from 1 on, `item` and
        `score`. `columns` is that of `learn`; `n`, `exclude_seen`, `allow`, `deny` and `where` are those of `recommend`.

        >>> from coldstream import Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.put_items({"a": {}, "b": {}})
        >>> [len(list_) for list_ in recommender.recommend_many(["u1", "u2"], n=1)]
        [1, 1]
        """
        frame = is_frame(requests)
        if not frame and (isinstance(requests, str) or not isinstance(requests, Iterable)):
            raise InvalidInput(f"requests must be a list of users or a data frame, got {shown(requests)}")
        asked = requests_of(requests, self.schema, columns) if frame else [Request(user, None, {}) for user in requests]
        kept = [list(ids) if isinstance(ids, Iterator) else ids for ids in (allow, deny)]  # each request reads them anew
        said: dict[str, Any] = {"exclude_seen": exclude_seen, "allow": kept[0], "deny": kept[1], "where": where}
        answers: list[list[Recommendation]] = []
        for first in range(0, len(asked), MAX_REQUESTS_SCORED_TOGETHER):
            some = asked[first : first + MAX_REQUESTS_SCORED_TOGETHER]
            answers += self.serving.recommend_batch(
                [self.serving.encode_request(one.user, n, context=one.context, time=one.time, **said) for one in some]
            )
        return frame_of(answers, asked, requests) if frame else answers

    def similar(
        self,
        item: str,
        n: int = 10,
        *,
        time: float | datetime | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
    ) -> list[Recommendation]:
        """Return the `n` items most similar to one, best first, or raise `UnknownId`.

        Items are similar that are chosen together, and whose learned vectors are alike; a new item is placed by its
        attributes. The score is a cosine. `time`, `allow`, `deny` and `where` are those of `recommend`.

        >>> from coldstream import Category, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id(), Category("brand")]))
        >>> recommender.put_items({"a": {"brand": "x"}, "b": {"brand": "y"}, "c": {"brand": "x"}})
        >>> [item for item, score in recommender.similar("a", n=1)]
        ['c']
        """
        slot, excluded = self.engine.slot(item), self.serving.excluded(time, allow, deny, where)
        return self.serving.named(similar(self.engine.shared, slot, checked_count("n", n), excluded))

    def trending(
        self,
        n: int = 10,
        *,
        half_life: float | None = None,
        time: float | datetime | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
    ) -> list[Recommendation]:
        """Return the `n` items chosen most often lately, best first; the score is a count that halves each `half_life`.

        Half-lives are in events; the nearest of those that are counted is used, without one the shortest. `time`, `allow`,
        `deny` and `where` are those of `recommend`.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn([Event("u1", "a"), Event("u1", "b"), Event("u2", "b")])
        >>> [item for item, score in recommender.trending(n=1)]
        ['b']
        """
        best = trending(
            self.engine.shared,
            half_life,
            checked_count("n", n),
            self.serving.excluded(time, allow, deny, where),
            self.engine.clock.events,
        )
        return self.serving.named(best)

    def newest(
        self,
        n: int = 10,
        *,
        time: float | datetime | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
    ) -> list[Recommendation]:
        """Return the `n` items that were added last, the latest first; the score is the number of the item's arrival.

        `time`, `allow`, `deny` and `where` are those of `recommend`.

        >>> from coldstream import Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.put_items({"a": {}, "b": {}})
        >>> [item for item, score in recommender.newest(n=1)]
        ['b']
        """
        excluded = self.serving.excluded(time, allow, deny, where)
        return self.serving.named(newest(self.engine.shared, checked_count("n", n), excluded))

    def rank(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
        exclude_seen: bool | None = None,
    ) -> Rank:
        """Return the rank of an item among all items for a user, or raise `UnknownId`.

        Items that the user had (as `exclude_seen` says) and items that are not available at the `time` do not compete; the
        item itself does in any case. `context`, `time` and `attributes` are those of `recommend`.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn([Event("u1", "a"), Event("u2", "a"), Event("u3", "b")])
        >>> recommender.rank("u4", "a").position
        0.0
        """
        slot = self.engine.slot(item)
        request = self.serving.encode(user, context, time, attributes, exclude_seen)
        return self.engine.shared.scorer.rank(request, slot, self.engine.clock.events)

    def predict(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> float:
        """Return the score of an item for a user in a context, whether it is available or not, or raise `UnknownId`.

        `context`, `time` and `attributes` are those of `recommend`.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn([Event("u1", "a"), Event("u2", "a"), Event("u3", "b")])
        >>> recommender.predict("u4", "a") > recommender.predict("u4", "b")
        True
        """
        slot = self.engine.slot(item)
        request = self.serving.encode(user, context, time, attributes, False)
        return self.engine.shared.scorer.score(request, slot, self.engine.clock.events)

    def explain(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Explanation:
        """Return the linear and pairwise terms that sum to the score of an item for a user, or raise `UnknownId`.

        The score has the digits that `recommend` and `predict` return; the terms sum to it up to rounding in float32. There
        are at most 1,000 terms: beyond that the terms of a field are added up, and the lightest ones become one term.
        `context`, `time` and `attributes` are those of `recommend`.

        >>> from coldstream import Event, Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.learn(Event("u1", "a"))
        >>> why = recommender.explain("u1", "a")
        >>> abs(sum(term.value for term in why.terms) - why.score) < 1e-5
        True
        """
        return explained(self.serving.addends(user, item, context=context, time=time, attributes=attributes))

    # State

    def save(self, path: str | Path) -> None:
        """Write everything to a file at `path`. After `load` learning goes on with the same bits.

        >>> from coldstream import Id, Recommender, Schema
        >>> recommender = Recommender(Schema(user=[Id()], item=[Id()]))
        >>> recommender.save("shop.snapshot")
        """
        write_snapshot(path, *self.engine.view())

    @classmethod
    def load(cls, path: str | Path) -> "Recommender":
        """Return the recommender that `save` wrote to `path`, or raise `InvalidSnapshot`.

        >>> from coldstream import Id, Recommender, Schema
        >>> Recommender(Schema(user=[Id()], item=[Id()]), seed=7).save("shop.snapshot")
        >>> Recommender.load("shop.snapshot").seed
        7
        """
        document, arrays = read_snapshot(path)
        if document.get("machine"):
            raise InvalidSnapshot(
                f"snapshot {str(path)!r} holds a FactorizationMachine; load it with FactorizationMachine.load"
            )
        if is_increment((document, arrays)):
            message = f"snapshot {str(path)!r} holds an increment of a service, not everything"
            raise InvalidSnapshot(f"{message}; load a full one, or what save() wrote")
        try:
            return cls.from_state(document, arrays)
        except InvalidSnapshot as error:
            raise InvalidSnapshot(f"snapshot {str(path)!r}: {error}") from error

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return everything that is known as a JSON document and named arrays, to be kept elsewhere than in a file.

        >>> from coldstream import Id, Recommender, Schema
        >>> document, arrays = Recommender(Schema(user=[Id()], item=[Id()]), seed=7).state()
        >>> document["seed"]
        7
        """
        return self.engine.state()

    @classmethod
    def from_state(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Recommender":
        """Return the recommender that a `document` and `arrays` of `state` describe, or raise `InvalidSnapshot`.

        >>> from coldstream import Id, Recommender, Schema
        >>> Recommender.from_state(*Recommender(Schema(user=[Id()], item=[Id()]), seed=7).state()).seed
        7
        """
        recommender = cls.__new__(cls)
        recommender._hold(Engine.from_state(document, arrays))
        return recommender
