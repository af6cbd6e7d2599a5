"""The handlers: what each call does. Reading runs at once on the event loop; writing waits for the writer.

What may take long does not hold up the loop: it is bounded, done in turns, or done on copies in another thread.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coldstream.config import PRESETS
from coldstream.errors import InvalidInput
from coldstream.features.fields import Field
from coldstream.features.schema import SIDES, Schema, fields_by_side
from coldstream.model.explanation import MOST_TERMS, Addends, explained
from coldstream.recommender import Recommendation
from coldstream.runtime.checks import Refused
from coldstream.runtime.records import FieldsAdded, Interaction, ItemPut, ItemRemoved, Record, UserPut
from coldstream.runtime.roles import Lag
from coldstream.runtime.snapshots import NOT_NOW
from coldstream.runtime.turns import in_turns
from coldstream.scoring.requests import EncodedRequest
from coldstream.service import health_messages, live_messages, messages
from coldstream.service.process_memory import resident_bytes
from coldstream.service.service import VERSION, Service

log = logging.getLogger(__name__)

# Recommend, and why


async def recommend(service: Service, request: messages.RecommendRequest, _: str) -> messages.RecommendResponse:
    """The best items for a user in a context."""
    await service.known_up_to(request.after)
    recommender, now = service.recommender, _seconds(request.time)
    _check_asked(request.context, request.attributes, request.where)

    def encode() -> EncodedRequest:
        return recommender.encode_request(
            request.user,
            request.n,
            context=request.context,
            time=now,
            attributes=request.attributes,
            exclude_seen=request.exclude_seen,
            allow=request.allow,
            deny=request.deny,
            where=request.where,
        )

    if not request.explain:
        best = await service.batcher.recommend(recommender, encode)
        if not request.describe:
            return messages.RecommendResponse([messages.Recommended(item, score) for item, score in best])
        described = zip(best, _described(service, best), strict=True)
        return messages.RecommendResponse([messages.Recommended(*one, attributes=own) for one, own in described])
    if request.n > messages.MOST_EXPLAINED:
        message = f"n must be at most {messages.MOST_EXPLAINED} with explain, got {request.n}"
        raise _refused("n", f"{message}; ask for fewer, or explain single items with /explain")
    best, addends = await service.batcher.recommend_with_addends(recommender, encode)
    most = min(MOST_TERMS, messages.MOST_TERMS // max(1, len(best)))
    known: Sequence[dict[str, Any] | UnsetType] = [UNSET] * len(best)
    if request.describe:
        known = _described(service, best)
    why = await asyncio.to_thread(lambda: [_terms(own, most) for own in addends])
    answers = zip(best, why, known, strict=True)
    return messages.RecommendResponse([messages.Recommended(*one, terms, own) for one, terms, own in answers])


def _described(service: Service, best: Sequence[Recommendation]) -> list[dict[str, Any]]:
    """The attributes of items that were recommended, and that may have been removed since."""
    recommender, described, size = service.recommender, list[dict[str, Any]](), 0
    for item, _ in best:
        own = recommender.item(item) if recommender.has_item(item) else {}
        size += len(msgspec.json.encode(own))
        if size > messages.MOST_DESCRIBED:
            message = f"the attributes of {len(best)} items take more than {messages.MOST_DESCRIBED} bytes"
            raise _refused("n", f"{message}; ask for fewer, or leave out describe")
        described.append(own)
    return described


async def explain(service: Service, request: messages.ExplainRequest, _: str) -> messages.Explanation:
    """The terms that add up to the score of one item."""
    await service.known_up_to(request.after)
    _check_asked(request.context, request.attributes, None)
    now, attributes = _seconds(request.time), request.attributes
    addends = service.recommender.addends(
        request.user, request.item, context=request.context, time=now, attributes=attributes
    )
    available = service.recommender.is_available(request.item, now)
    return messages.Explanation(addends.score, await asyncio.to_thread(_terms, addends, MOST_TERMS), available)


def _terms(addends: Addends, most: int) -> list[messages.Term]:
    return [messages.Term(list(term.features), term.value) for term in explained(addends, most).terms]


def _check_asked(context: messages.Fields, attributes: messages.Fields | None, where: messages.Fields | None) -> None:
    """Refuse a request with more values than can be looked at while others wait."""
    given = {"context": context, "attributes": attributes or {}, "where": where or {}}
    counts = {name: sum(len(v) if isinstance(v, list) else 1 for v in own.values()) for name, own in given.items()}
    total = sum(counts.values())
    if total > messages.MOST_ASKED:
        message = f"{', '.join(given)} must not have more than {messages.MOST_ASKED} values together, got {total}"
        raise _refused(max(counts, key=lambda name: counts[name]), f"{message}; leave some out")


def _refused(field: str, message: str) -> InvalidInput:
    error = InvalidInput(message)
    error.field = field
    return error


# Events, items and users


async def learn(service: Service, given: messages.Events, _: str) -> messages.Learned:
    """Log and learn what happened."""
    events = given if isinstance(given, list) else [given]
    records = [Interaction(e.user, e.item, _seconds(e.time), e.context, e.event_id) for e in events]
    positions = await _positions(service, records, given)
    return messages.Learned(len(positions), len(events) - len(positions), _last(service, positions))


async def put_items(service: Service, given: messages.Items, _: str) -> messages.Written:
    """Add items, or give them other attributes."""
    items = given if isinstance(given, list) else [given]
    return await _written(service, [_item_put(item.id, item) for item in items], given)


async def put_users(service: Service, given: messages.Users, _: str) -> messages.Written:
    """Add users, or give them other attributes."""
    users = given if isinstance(given, list) else [given]
    return await _written(service, [UserPut(user.id, user.attributes) for user in users], given)


async def put_item(service: Service, given: messages.ItemBody, name: str) -> messages.Written:
    """Add an item, or give it other attributes: a price changes. What was learned of it stays."""
    return await _written(service, [_item_put(name, given)], given)


def _item_put(item: str, given: messages.ItemBody | messages.NewItem) -> ItemPut:
    first, end = (None if own is None else _seconds(own) for own in (given.available_from, given.available_until))
    return ItemPut(item, given.attributes, first, end, given.hidden)


async def put_user(service: Service, given: messages.Attributes, name: str) -> messages.Written:
    """Add a user, or give one other attributes. What was learned of the user stays."""
    return await _written(service, [UserPut(name, given.attributes)], given)


def get_item(service: Service, _: None, name: str) -> messages.DescribedItem:
    """An item as it was put."""
    return messages.DescribedItem(name, service.recommender.item(name), *_availability(service, name))


def _availability(service: Service, item: str) -> tuple[float | UnsetType, float | UnsetType, bool | UnsetType]:
    """What was said of when an item may be recommended."""
    own = service.recommender.availability(item)
    first, end = (UNSET if time is None else time for time in (own.available_from, own.available_until))
    return first, end, own.hidden or UNSET


def get_user(service: Service, _: None, name: str) -> messages.Described:
    """A user as they were put."""
    return messages.Described(name, service.recommender.user(name))


async def delete_item(service: Service, _: None, name: str) -> messages.Written:
    """Take an item out of the catalogue, and forget what was learned of it."""
    return await _written(service, [ItemRemoved(name)], None)


async def delete_user(service: Service, _: None, name: str) -> messages.Forgotten:
    """Forget a person: attributes, history and the own vector at once, and every line in the log before long."""
    try:
        return messages.Forgotten(await service.writer.forget(name), service.settings.erase_minutes * 60)
    except Refused as refused:
        raise refused.error from refused


async def _written(service: Service, records: Sequence[Record], given: object) -> messages.Written:
    positions = await _positions(service, records, given)
    return messages.Written(len(positions), _last(service, positions))


async def _positions(service: Service, records: Sequence[Record], given: object) -> list[int]:
    """The positions of records that are new. A refusal says which of several it is about."""
    try:
        return [position for position in await service.writer.write(records) if position is not None]
    except Refused as refused:
        if isinstance(given, list):
            raise
        raise refused.error from refused


# Looking closer


def find_items(service: Service, request: messages.Search, _: str) -> messages.FoundItems:
    """Items whose id or attributes hold a text, in pages."""
    recommender, choices = service.recommender, service.learner.evaluation.choices
    found = recommender.inspection.items(request.search, request.limit, request.after)
    listed = [
        messages.ListedItem(item, recommender.item(item), choices(recommender.place(item)), *_availability(service, item))
        for item in found.names
    ]
    return messages.FoundItems(listed, found.total, found.next)


def find_users(service: Service, request: messages.UserSearch, _: str) -> messages.FoundUsers:
    """Users whose id holds a text, in pages; one that is the text comes first."""
    inspection = service.recommender.inspection
    after = request.after if request.cursor is None else inspection.user_place(request.cursor)
    found = inspection.users(request.search, request.limit, after)
    cursor = None if found.next is None else inspection.user_cursor(found.next)
    return messages.FoundUsers(*found, cursor)


def find_features(service: Service, request: messages.FeatureSearch, _: str) -> messages.FoundFeatures:
    """Features whose name holds a text, of one field or of all, in pages; one that is the text comes first."""
    inspection = service.recommender.inspection
    return messages.FoundFeatures(*inspection.features(request.search, request.limit, request.after, request.field))


async def nearest(service: Service, request: messages.NearestQuery, _: str) -> messages.NearestFeatures:
    """The features most like one, in the factor space."""
    near = await in_turns(service.recommender.inspection.nearest_in_steps(request.feature, request.n))
    return messages.NearestFeatures(request.feature, [messages.NearFeature(*one) for one in near])


async def changed(service: Service, request: messages.ChangedQuery, _: str) -> messages.ChangedFeatures:
    """The features that have moved farthest in the last window, or since somebody first asked."""
    since = await service.changes()
    passed = service.recommender.events - since.events
    moved = await in_turns(service.recommender.inspection.changed_in_steps(since, request.n))
    return messages.ChangedFeatures(passed, [messages.ChangedFeature(*one) for one in moved])


def schema(service: Service, request: messages.SchemaQuery, _: str) -> dict[str, Any]:
    """The schema in use, with how many values each field has had and some of them, in pages of fields."""
    own, inspection = service.recommender.schema, service.recommender.inspection
    fields = _fields(own)
    document: dict[str, Any] = {side: {} for side in SIDES}
    end = request.after + request.limit
    for side, field in fields[request.after : end]:
        options = document[side][field.name] = field.document()
        if field.kind in ("category", "set"):
            name = f"{side}.{field.name}"
            options |= {"values": sorted(inspection.values(name, request.values)), "known": inspection.count(name)}
    switches = {"exclude_seen": own.exclude_seen, "open_context": own.open_context}
    return document | switches | {"next": end if end < len(fields) else None}


async def put_fields(service: Service, given: messages.NewFields, _: str) -> messages.Written:
    """Declare fields: attributes of items or users, or a context with its scaling. Those that are there already stay."""
    fields = {side: getattr(given, side) for side in SIDES if getattr(given, side)}
    before = service.recommender.schema
    added = len(_fields(service.recommender.check_fields(fields_by_side(fields)))) - len(_fields(before))
    positions = await _positions(service, [FieldsAdded(fields)], None) if added else []
    return messages.Written(added, _last(service, positions))


def _fields(own: Schema) -> list[tuple[str, Field]]:
    return [(side, field) for side in SIDES for field in getattr(own, side)]


def live(service: Service, request: live_messages.LiveQuery, _: str) -> live_messages.LiveResponse:
    """How the service fared since a sample, for the page."""
    evaluation, live_samples = service.learner.evaluation, service.live_samples
    return live_messages.LiveResponse(
        _facts(service),
        evaluation.top,
        evaluation.window,
        [sample for sample in live_samples.samples if sample.seq > request.since],
        [annotation for annotation in live_samples.annotations if annotation.seq > request.since],
    )


def _facts(service: Service) -> live_messages.ServiceFacts:
    current, size, hyperparameters = service.current, service.recommender.size, service.recommender.hyperparameters
    newest = current.snapshots.newest
    preset = next((name for name, known in PRESETS.items() if known == hyperparameters), "of its own")
    return live_messages.ServiceFacts(
        version=VERSION,
        ready=service.ready,
        store="works" if current.store_works else "unavailable",
        role=current.role.value,
        position=service.learner.position,
        lag=_lag(current.lag),
        snapshot=newest
        and live_messages.NewestSnapshot(newest.number, newest.position, round(current.snapshots.seconds_ago, 1)),
        preset=preset,
        items=size.items,
        users=size.users,
        features=size.features,
        factors=hyperparameters.factors,
        parameters_bytes=4 * size.features * (hyperparameters.factors + 1),
        process_bytes=resident_bytes(),
        memory=live_messages.MemoryFacts(*service.recommender.memory),
    )


# The service itself


def evaluation(service: Service, _: None, __: str) -> messages.EvaluationResponse:
    """How the recommender and its shadows did lately."""
    live = service.learner.evaluation.metrics()
    methods = {name: messages.MethodMetrics(*own) for name, own in live.methods.items()}
    return messages.EvaluationResponse(*live[:-1], methods)


async def snapshot(service: Service, _: messages.Nothing, __: str) -> messages.SnapshotTaken:
    """Take a snapshot now."""
    try:
        saved = await service.current.snapshot()
    except NOT_NOW as error:
        log.warning("no snapshot could be taken", extra={"reason": str(error)})
        raise
    return messages.SnapshotTaken(saved.number, saved.position)


def metrics(service: Service, _: None, __: str) -> bytes:
    """Everything that can be watched, for Prometheus."""
    return service.metrics.text()


async def fingerprint(service: Service, _: None, __: str) -> health_messages.StateFingerprint:
    """A digest of all that is learned, to be compared with that of another replica at the same position."""
    return health_messages.StateFingerprint(*await service.fingerprint())


def health(service: Service, _: None, __: str) -> health_messages.Health:
    """Whether the process is alive, how far its start has come, and how far it is behind the log."""
    began = service.start_up
    start = None if began is None else health_messages.Starting(began.phase, round(began.seconds, 1))
    if not service.has_begun:
        return health_messages.Health("ok", VERSION, "works", start, None, None, None)
    current = service.current
    words = ("ok", "works") if current.store_works else ("degraded", "unavailable")
    position = current.learner.position
    return health_messages.Health(words[0], VERSION, words[1], start, current.role.value, position, _lag(current.lag))


def ready(service: Service, _: None, __: str) -> health_messages.Ready:
    """Whether the service answers: recovered, compiled, and not about to stop."""
    service.check_stays()
    return health_messages.Ready(service.learner.position)


def _lag(own: Lag) -> health_messages.LogLag:
    return health_messages.LogLag(own.lines, round(1e3 * own.seconds, 1))


def _seconds(given: messages.Time | None) -> float:
    """The time of a request: as given, or now."""
    if given is None:
        return time.time()
    return given.timestamp() if isinstance(given, datetime) else float(given)


def _last(service: Service, positions: Sequence[int]) -> int:
    return positions[-1] if positions else service.learner.position
