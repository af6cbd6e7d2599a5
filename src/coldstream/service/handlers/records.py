"""Handlers of events, items, users and the service itself. A handler that writes waits until the writer has written."""

import logging
from collections.abc import Sequence

from msgspec import UNSET

from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, Record, UserMerged, UserPut
from coldstream.runtime.snapshots import NOT_NOW
from coldstream.runtime.writing.checks import Refused
from coldstream.service.handlers.answers import availability, lag, last, seconds, write
from coldstream.service.handlers.arrow_stream import row_shape
from coldstream.service.handlers.line_stream import LineKind
from coldstream.service.messages import core as messages
from coldstream.service.messages import health as health_messages
from coldstream.service.service import VERSION, Service

log = logging.getLogger(__name__)


# Events, items and users


async def learn(service: Service, given: messages.Events, _: str) -> messages.Learned:
    """Log and learn events."""
    events = given if isinstance(given, list) else [given]
    records: Sequence[Record] = [_interaction(event) for event in events]
    if told := any(event.recommendation_id is not None or event.passed_over for event in events):
        records = await service.impressions.completed(records, service.recommender)
    positions = await write(service, records, given)
    if told:
        service.impressions.note(records, service.recommender)
    return messages.Learned(len(positions), len(events) - len(positions), last(service, positions))


def _interaction(event: messages.NewEvent) -> Interaction:
    own = (event.context, event.event_id, event.kind, event.recommendation_id, tuple(event.passed_over))
    return Interaction(event.user, event.item, seconds(event.time), *own)


async def put_items(service: Service, given: messages.Items, _: str) -> messages.Written:
    """Add items, or replace their attributes and availability."""
    items = given if isinstance(given, list) else [given]
    return await _written(service, [_item_put(item.id, item) for item in items], given)


async def put_users(service: Service, given: messages.Users, _: str) -> messages.Written:
    """Add users, or replace their attributes."""
    users = given if isinstance(given, list) else [given]
    return await _written(service, [_user_put(user) for user in users], given)


def _user_put(user: messages.NewUser) -> UserPut:
    return UserPut(user.id, user.attributes)


async def put_item(service: Service, given: messages.ItemBody, name: str) -> messages.Written:
    """Add an item, or replace its attributes and availability. What was learned of it stays."""
    return await _written(service, [_item_put(name, given)], given)


def _item_put(item: str, given: messages.ItemBody | messages.NewItem) -> ItemPut:
    first, end = (None if own is None else seconds(own) for own in (given.available_from, given.available_until))
    return ItemPut(item, given.attributes, first, end, given.hidden)


EVENT_LINE = LineKind(messages.NewEvent, _interaction, row_shape(messages.NewEvent, None, "context"))
ITEM_LINE = LineKind(
    messages.NewItem, lambda item: _item_put(item.id, item), row_shape(messages.NewItem, "item", "attributes")
)
USER_LINE = LineKind(messages.NewUser, _user_put, row_shape(messages.NewUser, "user", "attributes"))


async def put_user(service: Service, given: messages.Attributes, name: str) -> messages.Written:
    """Add a user, or replace their attributes. What was learned of the user stays."""
    return await _written(service, [UserPut(name, given.attributes)], given)


def get_item(service: Service, _: None, name: str) -> messages.DescribedItem:
    """Return the attributes and the availability of an item, as they were put last."""
    return messages.DescribedItem(name, service.recommender.item(name), *availability(service, name))


def get_user(service: Service, _: None, name: str) -> messages.Described:
    """Return the attributes of a user, as they were put last."""
    return messages.Described(name, service.recommender.user(name))


async def delete_item(service: Service, _: None, name: str) -> messages.Written:
    """Remove an item from the catalogue, and forget what was learned of it."""
    return await _written(service, [ItemRemoved(name)], None)


async def delete_user(service: Service, _: None, name: str) -> messages.Forgotten:
    """Forget a user: attributes, history, shown lists and vector at once; log and snapshots are erased later."""
    try:
        forgotten = await service.writer.forget(name, service.impressions.has)
    except Refused as refused:
        raise refused.error from refused
    service.impressions.forget(forgotten.people)
    return messages.Forgotten(forgotten.position, service.settings.erase_minutes * 60)


async def merge_user(service: Service, given: messages.MergedSession, name: str) -> messages.Written:
    """Merge a session into a user who has logged in, and forget the session."""
    written = await _written(service, [UserMerged(given.session, name)], given)
    service.impressions.hand_over(given.session, name)
    return written


async def _written(service: Service, records: Sequence[Record], given: object) -> messages.Written:
    positions = await write(service, records, given)
    return messages.Written(len(positions), last(service, positions))


# The service itself


async def evaluation(service: Service, _: None, __: str) -> messages.EvaluationResponse:
    """Return the live evaluation of the recommender and its baselines, and click-through by position."""
    counts = await service.impressions.counts()
    live = service.learner.evaluation.metrics()
    methods = {name: messages.MethodMetrics(*own) for name, own in live.methods.items()}
    positions = [messages.PositionMetrics(place + 1, *own) for place, *own in counts]
    return messages.EvaluationResponse(*live[:-1], methods, positions or UNSET)


async def snapshot(service: Service, _: messages.Nothing, __: str) -> messages.SnapshotTaken:
    """Take a snapshot now."""
    try:
        saved = await service.current.snapshot()
    except NOT_NOW as error:
        log.warning("no snapshot could be taken", extra={"reason": str(error)})
        raise
    return messages.SnapshotTaken(saved.number, saved.position)


def metrics(service: Service, _: None, __: str) -> bytes:
    """Return all metrics in Prometheus' text format."""
    return service.metrics.text()


async def fingerprint(service: Service, _: None, __: str) -> health_messages.StateFingerprint:
    """Return a digest of all that is learned, to compare with that of another replica at the same position."""
    return health_messages.StateFingerprint(*await service.fingerprint())


def health(service: Service, _: None, __: str) -> health_messages.Health:
    """Return the health of the process: its start, its role, whether its store works, and its lag behind the log."""
    began = service.start_up
    start = None if began is None else health_messages.Starting(began.phase, round(began.seconds, 1))
    if not service.has_begun:
        return health_messages.Health("ok", VERSION, "works", start, None, None, None)
    current = service.current
    words = ("ok", "works") if current.store_works else ("degraded", "unavailable")
    position = current.learner.position
    return health_messages.Health(words[0], VERSION, words[1], start, current.role.value, position, lag(current.lag))


def ready(service: Service, _: None, __: str) -> health_messages.Ready:
    """Return the position learned if the service has started and is not about to stop; otherwise answer 503."""
    service.check_stays()
    return health_messages.Ready(service.learner.position)
