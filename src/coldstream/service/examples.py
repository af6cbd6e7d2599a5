"""An example of every call, for the OpenAPI document: by its name, what goes in and what comes out."""

from typing import Any, NamedTuple


class Example(NamedTuple):
    """A body, and the answer to it."""

    given: Any
    answer: Any


_EVENT = {"user": "ann", "item": "b7", "time": "2026-11-15T09:30:00Z", "context": {"device": "phone"}, "event_id": "e-1"}
_ITEM = {"id": "b7", "attributes": {"genre": ["jazz", "live"], "price": 12.5}}
_USER = {"id": "ann", "attributes": {"country": "NL"}}
_WRITTEN = {"written": 1, "position": 4}
_TERMS = [{"features": ["user.country=NL", "item.genre=jazz"], "value": 0.61}, {"features": ["item.id=b7"], "value": 0.2}]
_STANDING = {
    "top": 10,
    "window": 3000,
    "events": 120_000,
    "tested": 118_000,
    "sampled": 0.98,
    "new_users": 0.08,
    "new_items": 0.01,
    "methods": {
        "coldstream": {"recall": 0.31, "mpr": 9.1},
        "popularity": {"recall": 0.14, "mpr": 20.4},
        "recent_popularity": {"recall": 0.19, "mpr": 17.7},
    },
}

EXAMPLES: dict[str, Example] = {
    "recommend": Example(
        {"user": "ann", "n": 2, "context": {"device": "phone"}, "where": {"genre": "jazz"}},
        {"items": [{"item": "b7", "score": 1.92}, {"item": "b2", "score": 1.4}]},
    ),
    "learn": Example([_EVENT], {"learned": 1, "duplicates": 0, "position": 5}),
    "explain": Example({"user": "ann", "item": "b7"}, {"score": 0.81, "terms": _TERMS}),
    "put_items": Example([_ITEM], _WRITTEN),
    "put_item": Example({"attributes": _ITEM["attributes"]}, _WRITTEN),
    "get_item": Example(None, _ITEM),
    "delete_item": Example(None, _WRITTEN),
    "put_users": Example([_USER], _WRITTEN),
    "put_user": Example({"attributes": _USER["attributes"]}, _WRITTEN),
    "get_user": Example(None, _USER),
    "delete_user": Example(None, {"erased": True}),
    "evaluation": Example(None, _STANDING),
    "metrics": Example(None, "# HELP coldstream_events Events that were learned.\ncoldstream_events 4.0\n"),
    "snapshot": Example(None, {"number": 2, "position": 5}),
    "health": Example(None, {"status": "ok", "version": "0.1.0", "store": "works"}),
    "ready": Example(None, {"position": 5}),
}
