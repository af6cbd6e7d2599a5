"""Examples of requests and answers for the OpenAPI document, by the name of their handler."""

from typing import Any, NamedTuple


class Example(NamedTuple):
    """The body of a request, and the answer to it."""

    given: Any
    answer: Any


_EVENT = {"user": "ann", "item": "b7", "time": "2026-11-15T09:30:00Z", "context": {"device": "phone"}, "event_id": "e-1"}
_ITEM = {"id": "b7", "attributes": {"genre": ["jazz", "live"], "price": 12.5}}
_ATTRIBUTES = {"attributes": _ITEM["attributes"]}
_USER = {"id": "ann", "attributes": {"country": "NL"}}
_WRITTEN = {"written": 1, "position": 4}
_TERMS = [{"features": ["user.country=NL", "item.genre=jazz"], "value": 0.61}, {"features": ["item.id=b7"], "value": 0.2}]
_EVALUATION = {
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

_SAMPLE = {
    "seq": 1_794_758_692,
    "time": 1_794_758_692.5,
    "events": 120_000,
    "events_per_second": 60.0,
    "recommendations_per_second": 410.0,
    "p50_ms": 0.4,
    "p99_ms": 2.1,
    "features": 8_120,
    "new_features": 31,
    "sampled": 1.0,
    "new_users": 0.08,
    "new_items": 0.01,
    "methods": _EVALUATION["methods"],
    "penalties": {"user.id": 0.021, "item.genre": 0.004},
}
_FACTS = {
    "version": "0.1.0",
    "ready": True,
    "store": "works",
    "role": "writer",
    "position": 131_204,
    "lag": {"lines": 0, "milliseconds": 0.0},
    "snapshot": {"number": 2, "position": 100_000, "seconds_ago": 300.0},
    "preset": "default",
    "items": 1_682,
    "users": 943,
    "features": 8_120,
    "factors": 40,
    "parameters_bytes": 1_331_680,
    "process_bytes": 488_200_000,
    "memory": {
        "used": 11_840_000,
        "bound": 2_147_483_648,
        "parts": {
            "values": 5_760_000,
            "fields": 20_000,
            "users": 2_280_000,
            "history": 250_000,
            "items": 2_390_000,
            "neighbours": 1_140_000,
        },
        "refused": {"many": 12},
        "gone": {"values evicted": 40},
    },
}

EXAMPLES: dict[str, Example] = {
    "live": Example(
        {"since": 1_794_758_691},
        {
            "service": _FACTS,
            "top": 10,
            "window": 3000,
            "samples": [_SAMPLE],
            "marks": [{"seq": 1_794_758_692, "events": 119_990, "kind": "drift", "text": "drift was noticed"}],
        },
    ),
    "schema": Example(
        {"limit": 256},
        {
            "user": {"id": {"kind": "id"}},
            "item": {"genre": {"kind": "set", "values": ["jazz", "live"], "known": 2}},
            "context": {},
            "exclude_seen": True,
            "open_context": True,
            "next": None,
        },
    ),
    "put_fields": Example(
        {"item": {"brand": {"kind": "category"}}, "context": {"distance": {"kind": "number", "low": 0, "high": 50}}},
        {"written": 2, "position": 6},
    ),
    "find_items": Example({"search": "jazz"}, {"items": [{**_ITEM, "chosen": 17}], "total": 1, "next": None}),
    "find_users": Example({"search": "an"}, {"users": ["ann"], "total": 1, "next": None, "cursor": None}),
    "find_features": Example({"search": "jazz"}, {"features": ["item.genre=jazz"], "total": 1, "next": None}),
    "nearest": Example(
        {"feature": "item.genre=jazz"},
        {"feature": "item.genre=jazz", "nearest": [{"feature": "item.genre=blues", "similarity": 0.83}]},
    ),
    "changed": Example({"n": 1}, {"since_events": 2_400, "changed": [{"feature": "item.id=b7", "change": 0.31}]}),
    "recommend": Example(
        {
            "user": "ann",
            "n": 2,
            "context": {"device": "phone"},
            "where": {"genre": {"any": ["jazz", "live"], "not": ["swing"]}, "price": {"max": 50}},
            "rules": {"boosts": [{"where": {"genre": "live"}, "factor": 2}], "most_per": {"genre": 3}, "diversity": 0.2},
            "remember": True,
        },
        {
            "items": [{"item": "b7", "score": 1.92}, {"item": "b2", "score": 1.4}],
            "recommendation_id": "3KXVtN0c9VhyQ0pU",
        },
    ),
    "learn": Example([_EVENT], {"learned": 1, "duplicates": 0, "position": 5}),
    "similar": Example({"n": 2}, {"items": [{"item": "b2", "score": 0.71}, {"item": "b9", "score": 0.4}]}),
    "trending": Example({"half_life": 500}, {"items": [{"item": "b2", "score": 31.4}]}),
    "newest": Example({"n": 1, "describe": True}, {"items": [{"item": "b7", "score": 1681.0, **_ATTRIBUTES}]}),
    "explain": Example({"user": "ann", "item": "b7"}, {"score": 0.81, "terms": _TERMS, "available": True}),
    "put_items": Example([_ITEM, {"id": "b8", "hidden": True}], {"written": 2, "position": 5}),
    "put_item": Example({"attributes": _ITEM["attributes"], "available_from": "2026-12-01T00:00:00Z"}, _WRITTEN),
    "get_item": Example(None, {**_ITEM, "available_from": 1_796_083_200.0}),
    "delete_item": Example(None, _WRITTEN),
    "put_users": Example([_USER], _WRITTEN),
    "put_user": Example({"attributes": _USER["attributes"]}, _WRITTEN),
    "merge_user": Example({"session": "visitor-8812"}, _WRITTEN),
    "get_user": Example(None, _USER),
    "delete_user": Example(None, {"position": 6, "erasure_begins_within": 600.0}),
    "evaluation": Example(None, _EVALUATION),
    "metrics": Example(None, "# HELP coldstream_events Events that were learned.\ncoldstream_events 4.0\n"),
    "snapshot": Example({}, {"number": 2, "position": 5}),
    "fingerprint": Example(None, {"position": 5, "fingerprint": "8f1b3a0c5d7e9f20"}),
    "health": Example(
        None,
        {
            "status": "ok",
            "version": "0.1.0",
            "store": "works",
            "starting": None,
            "role": "follower",
            "position": 5,
            "lag": {"lines": 0, "milliseconds": 0.0},
        },
    ),
    "ready": Example(None, {"position": 5}),
}
