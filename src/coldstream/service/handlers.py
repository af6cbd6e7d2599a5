"""The handlers: what each call does. Reading runs at once on the event loop; writing waits for the writer."""

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET

from coldstream.config import PRESETS
from coldstream.features.schema import SIDES
from coldstream.inspection import searched
from coldstream.model.explanation import Explanation
from coldstream.runtime.checks import Refused
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, Record, UserPut
from coldstream.runtime.snapshots import NOT_NOW
from coldstream.scoring.requests import EncodedRequest
from coldstream.service import live_messages, messages
from coldstream.service.process_memory import resident_bytes
from coldstream.service.service import VERSION, Service

log = logging.getLogger(__name__)

# Recommend, and why


async def recommend(service: Service, request: messages.RecommendRequest, _: str) -> messages.RecommendResponse:
    """The best items for a user in a context."""
    recommender, now = service.recommender, _seconds(request.time)

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

    best = await service.batcher.recommend(recommender, encode)
    if not request.explain and not request.describe:
        return messages.RecommendResponse([messages.Recommended(item, score) for item, score in best])
    known = [_described(service, item) if request.describe else UNSET for item, _ in best]
    if not request.explain:
        described = zip(best, known, strict=True)
        return messages.RecommendResponse([messages.Recommended(*one, attributes=own) for one, own in described])
    asked = (messages.ExplainRequest(item, request.user, request.context, now, request.attributes) for item, _ in best)
    terms = [_terms(_explained(service, one)) for one in asked]
    answers = zip(best, terms, known, strict=True)
    return messages.RecommendResponse([messages.Recommended(*one, why, own) for one, why, own in answers])


def _described(service: Service, item: str) -> dict[str, Any]:
    """The attributes of an item that was recommended, and that may have been removed since."""
    return service.recommender.item(item) if service.recommender.has_item(item) else {}


def explain(service: Service, request: messages.ExplainRequest, _: str) -> messages.Explanation:
    """The terms that add up to the score of one item."""
    explanation = _explained(service, request)
    return messages.Explanation(explanation.score, _terms(explanation))


def _explained(service: Service, request: messages.ExplainRequest) -> Explanation:
    return service.recommender.explain(
        request.user, request.item, context=request.context, time=_seconds(request.time), attributes=request.attributes
    )


def _terms(explanation: Explanation) -> list[messages.Term]:
    return [messages.Term(list(term.features), term.value) for term in explanation.terms]


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
    return await _written(service, [ItemPut(item.id, item.attributes) for item in items], given)


async def put_users(service: Service, given: messages.Users, _: str) -> messages.Written:
    """Add users, or give them other attributes."""
    users = given if isinstance(given, list) else [given]
    return await _written(service, [UserPut(user.id, user.attributes) for user in users], given)


async def put_item(service: Service, given: messages.Attributes, name: str) -> messages.Written:
    """Add an item, or give it other attributes: a price changes. What was learned of it stays."""
    return await _written(service, [ItemPut(name, given.attributes)], given)


async def put_user(service: Service, given: messages.Attributes, name: str) -> messages.Written:
    """Add a user, or give one other attributes. What was learned of the user stays."""
    return await _written(service, [UserPut(name, given.attributes)], given)


def get_item(service: Service, _: None, name: str) -> messages.Described:
    """An item as it was put."""
    return messages.Described(name, service.recommender.item(name))


def get_user(service: Service, _: None, name: str) -> messages.Described:
    """A user as they were put."""
    return messages.Described(name, service.recommender.user(name))


async def delete_item(service: Service, _: None, name: str) -> messages.Written:
    """Take an item out of the catalogue, and forget what was learned of it."""
    return await _written(service, [ItemRemoved(name)], None)


async def delete_user(service: Service, _: None, name: str) -> messages.Forgotten:
    """Forget a person: attributes, history, the own vector, and every line in the log."""
    try:
        return messages.Forgotten(await service.writer.forget(name))
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
    """Items whose id or attributes hold a text."""
    recommender, wanted = service.recommender, request.search.casefold()
    found = [item for item in recommender.items() if not wanted or wanted in _words(item, recommender.item(item))]
    some = found[request.offset : request.offset + request.limit]
    choices = service.learner.evaluation.choices
    listed = [messages.ListedItem(item, recommender.item(item), choices(recommender.place(item))) for item in some]
    return messages.FoundItems(listed, len(found))


def find_users(service: Service, request: messages.Search, _: str) -> messages.FoundUsers:
    """Users whose id holds a text; one that is the text comes first."""
    found = searched(iter(service.recommender.users()), request.search, request.limit, request.offset)
    if request.search not in found.names and service.recommender.has_user(request.search) and not request.offset:
        return messages.FoundUsers([request.search, *found.names[: request.limit - 1]], found.total)
    return messages.FoundUsers(sorted(found.names, key=lambda name: name != request.search), found.total)


def find_features(service: Service, request: messages.Search, _: str) -> messages.FoundFeatures:
    """Features whose name holds a text."""
    return messages.FoundFeatures(*service.recommender.inspection.features(request.search, request.limit, request.offset))


def nearest(service: Service, request: messages.NearestQuery, _: str) -> messages.NearestFeatures:
    """The features most like one, in the factor space."""
    near = service.recommender.inspection.nearest(request.feature, request.n)
    return messages.NearestFeatures(request.feature, [messages.NearFeature(*one) for one in near])


def changed(service: Service, request: messages.ChangedQuery, _: str) -> messages.ChangedFeatures:
    """The features that have moved farthest in the last window, or since somebody first asked."""
    since = service.changes()
    moved = service.recommender.inspection.changed(since, request.n)
    passed = service.recommender.events - since.events
    return messages.ChangedFeatures(passed, [messages.ChangedFeature(*one) for one in moved])


def schema(service: Service, _: None, __: str) -> dict[str, Any]:
    """The schema in use, with some of the values that each field has had."""
    recommender = service.recommender
    document = recommender.schema.document()
    for side in SIDES:
        for name, options in document[side].items():
            if options["kind"] in ("category", "set"):
                prefix = f"{side}.{name}="
                known = recommender.inspection.features(prefix, 50).names
                options["values"] = sorted(value.removeprefix(prefix) for value in known if value.startswith(prefix))
    return document


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
    writer, size, hyperparameters = service.writer, service.recommender.size, service.recommender.hyperparameters
    newest = writer.snapshots.newest
    preset = next((name for name, known in PRESETS.items() if known == hyperparameters), "of its own")
    return live_messages.ServiceFacts(
        version=VERSION,
        ready=service.ready,
        store="works" if writer.store_works else "unavailable",
        position=service.learner.position,
        snapshot=newest
        and live_messages.NewestSnapshot(newest.number, newest.position, round(writer.snapshots.seconds_ago, 1)),
        preset=preset,
        items=size.items,
        users=size.users,
        features=size.features,
        factors=hyperparameters.factors,
        parameters_bytes=4 * size.features * (hyperparameters.factors + 1),
        process_bytes=resident_bytes(),
    )


def _words(item: str, attributes: Mapping[str, Any]) -> str:
    return f"{item} {' '.join(map(str, attributes.values()))}".casefold()


# The service itself


def evaluation(service: Service, _: None, __: str) -> messages.EvaluationResponse:
    """How the recommender and its shadows did lately."""
    live = service.learner.evaluation.metrics()
    methods = {name: messages.MethodMetrics(*own) for name, own in live.methods.items()}
    return messages.EvaluationResponse(*live[:-1], methods)


async def snapshot(service: Service, _: messages.Nothing, __: str) -> messages.SnapshotTaken:
    """Take a snapshot now."""
    try:
        saved = await service.writer.snapshot()
    except NOT_NOW as error:
        log.warning("no snapshot could be taken", extra={"reason": str(error)})
        raise
    return messages.SnapshotTaken(saved.number, saved.position)


def metrics(service: Service, _: None, __: str) -> bytes:
    """Everything that can be watched, for Prometheus."""
    return service.metrics.text()


def health(service: Service, _: None, __: str) -> messages.Health:
    """Whether the process is alive, and how far it has come while it starts."""
    works = not service.ready or service.writer.store_works
    began = service.start_up
    start = None if began is None else messages.Starting(began.phase, round(began.seconds, 1))
    return messages.Health("ok" if works else "degraded", VERSION, "works" if works else "unavailable", start)


def ready(service: Service, _: None, __: str) -> messages.Ready:
    """Whether the service answers: recovered, and compiled."""
    return messages.Ready(service.learner.position)


def _seconds(given: messages.Time | None) -> float:
    """The time of a request: as given, or now."""
    if given is None:
        return time.time()
    return given.timestamp() if isinstance(given, datetime) else float(given)


def _last(service: Service, positions: Sequence[int]) -> int:
    return positions[-1] if positions else service.learner.position
