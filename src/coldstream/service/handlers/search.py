"""Handlers that inspect the model: items, users, features, schema and live figures. Long work runs in slices."""

import os
import resource
import sys
from pathlib import Path
from typing import Any

from msgspec import UNSET

from coldstream.config import PRESETS
from coldstream.features.fields import Field
from coldstream.features.schema import SIDES, Schema, fields_by_side
from coldstream.runtime.records import FieldsAdded
from coldstream.runtime.turns import in_turns
from coldstream.service.handlers.answers import availability, lag, last, write
from coldstream.service.messages import core as messages
from coldstream.service.messages import live as live_messages
from coldstream.service.messages import search as search_messages
from coldstream.service.service import VERSION, Service

_STATM = Path("/proc/self/statm")
"""File in which Linux gives the memory of the process, in pages."""


def resident_bytes() -> int:
    """Return the resident memory of the process in bytes; its maximum so far on systems without `/proc`."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def find_items(service: Service, request: search_messages.Search, _: str) -> search_messages.FoundItems:
    """Return a page of the items whose id or attributes contain a text."""
    recommender, choices = service.recommender, service.learner.evaluation.choices
    found = recommender.inspection.items(request.search, request.limit, request.after)
    listed = [
        search_messages.ListedItem(
            item, recommender.item(item), choices(recommender.engine.place(item)), *availability(service, item)
        )
        for item in found.names
    ]
    return search_messages.FoundItems(listed, found.total, found.next)


def find_users(service: Service, request: search_messages.UserSearch, _: str) -> search_messages.FoundUsers:
    """Return a page of the users whose id contains a text; an exact match comes first."""
    inspection = service.recommender.inspection
    after = request.after if request.cursor is None else inspection.user_place(request.cursor)
    found = inspection.users(request.search, request.limit, after)
    cursor = None if found.next is None else inspection.user_cursor(found.next)
    return search_messages.FoundUsers(*found, cursor)


def find_features(service: Service, request: search_messages.FeatureSearch, _: str) -> search_messages.FoundFeatures:
    """Return a page of the features whose name contains a text, of one field or of all; an exact match comes first."""
    inspection = service.recommender.inspection
    return search_messages.FoundFeatures(*inspection.features(request.search, request.limit, request.after, request.field))


async def nearest(service: Service, request: search_messages.NearestQuery, _: str) -> search_messages.NearestFeatures:
    """Return the features whose vectors are nearest to that of a feature."""
    near = await in_turns(service.recommender.inspection.nearest_in_steps(request.feature, request.n))
    return search_messages.NearestFeatures(request.feature, [search_messages.NearFeature(*one) for one in near])


async def changed(service: Service, request: search_messages.ChangedQuery, _: str) -> search_messages.ChangedFeatures:
    """Return the features whose parameters have moved farthest since an earlier copy, first made at the first call."""
    since = await service.changes()
    passed = service.recommender.events - since.events
    moved = await in_turns(service.recommender.inspection.changed_in_steps(since, request.n))
    return search_messages.ChangedFeatures(passed, [search_messages.ChangedFeature(*one) for one in moved])


def schema(service: Service, request: search_messages.SchemaQuery, _: str) -> search_messages.SchemaInUse:
    """Return a page of the fields of the schema in use, with counts and examples of their values."""
    own, inspection = service.recommender.schema, service.recommender.inspection
    fields = _fields(own)
    sides: dict[str, dict[str, dict[str, Any]]] = {side: {} for side in SIDES}
    end = request.after + request.limit
    for side, field in fields[request.after : end]:
        options = sides[side][field.name] = field.document()
        if field.kind in ("category", "set"):
            name = f"{side}.{field.name}"
            options |= {"values": sorted(inspection.values(name, request.values)), "known": inspection.count(name)}
    return search_messages.SchemaInUse(
        **sides,
        exclude_seen=own.exclude_seen,
        open_context=own.open_context,
        feedback=own.document()["feedback"] if own.feedback else UNSET,
        next=end if end < len(fields) else None,
    )


async def put_fields(service: Service, given: messages.NewFields, _: str) -> messages.Written:
    """Declare new fields: attributes of users or items, or fields of the context. Existing fields stay."""
    fields = {side: getattr(given, side) for side in SIDES if getattr(given, side)}
    before = service.recommender.schema
    added = len(_fields(service.recommender.engine.check_fields(fields_by_side(fields)))) - len(_fields(before))
    positions = await write(service, [FieldsAdded(fields)], None) if added else []
    return messages.Written(added, last(service, positions))


def _fields(own: Schema) -> list[tuple[str, Field]]:
    return [(side, field) for side in SIDES for field in getattr(own, side)]


def live(service: Service, request: live_messages.LiveQuery, _: str) -> live_messages.LiveResponse:
    """Return the live figures of the service and its samples since a given one, for the dashboard."""
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
        lag=lag(current.lag),
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
