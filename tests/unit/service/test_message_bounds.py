"""How far the parts of a request may go: the last that may be is taken, and the first that may not is refused."""

from typing import Any

import msgspec
import pytest

from coldstream.service.messages import core as messages
from coldstream.service.messages import live as live_messages
from coldstream.service.messages import recommend as recommend_messages
from coldstream.service.messages import search as search_messages


def refused(kind: Any, given: object) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode(given), type=kind)
    except msgspec.ValidationError:
        return True
    return False


def fields(count: int) -> dict[str, int]:
    return {f"f{n}": 1 for n in range(count)}


EVENT = {"user": "u", "item": "i"}
RULES, BOOST, PIN = recommend_messages.RulesBody, {"where": {}}, {"item": "i", "position": 1}

BOUNDS: list[tuple[Any, list[Any], list[Any]]] = [
    (messages.Name, ["x", "x" * 256], ["", "x" * 257]),
    (messages.Text, ["", "x" * 1024], ["x" * 1025]),
    (messages.Whole, [2**53, -(2**53)], [2**53 + 1, -(2**53) - 1]),
    (messages.Number, [1e300, -1e300], [1.1e300, -1.1e300]),
    (messages.Value, [["x"] * 256, []], [["x"] * 257]),
    (messages.Fields, [{}, fields(64)], [fields(65), {"": 1}]),
    (messages.Time, [9.9e14, -9.9e14, "2026-11-15T09:30:00Z"], [1e15, -1e15, "2026-11-15T09:30:00"]),
    (messages.Condition, [fields(8)], [fields(9)]),
    (messages.Where, [fields(64)], [fields(65)]),
    (messages.Identifier, [2**63 - 1, -(2**63), "7"], [2**63, -(2**63) - 1, "", 7.5]),
    (messages.Filter, [[], ["i"] * 10_000], [["i"] * 10_001]),
    (messages.Place, [0, 2**53], [-1, 2**53 + 1]),
    (messages.NewField, [fields(16)], [fields(17)]),
    (messages.NewSide, [{name: {} for name in fields(64)}], [{name: {} for name in fields(65)}]),
    *(
        (kind, [one, [one], [one] * 1000], [[], [one] * 1001])
        for kind, one in ((messages.Events, EVENT), (messages.Items, {"id": "i"}), (messages.Users, {"id": "u"}))
    ),
    (messages.NewEvent, [EVENT | {"passed_over": ["i"] * 100}], [EVENT | {"passed_over": ["i"] * 101}]),
    (recommend_messages.RecommendRequest, [{"n": 1}, {"n": 1000}], [{"n": 0}, {"n": 1001}]),
    (recommend_messages.ListQuery, [{"n": 1}, {"n": 1000}], [{"n": 0}, {"n": 1001}]),
    (
        recommend_messages.TrendingQuery,
        [{"n": 1}, {"n": 1000}, {"half_life": 1e12}, {"half_life": 1e-9}],
        [{"n": 0}, {"n": 1001}, {"half_life": 0}, {"half_life": 1.1e12}],
    ),
    (
        recommend_messages.BoostBody,
        [BOOST | {"factor": 1e-9}, BOOST | {"factor": 1e9}],
        [BOOST | {"factor": 0.9e-9}, BOOST | {"factor": 1.1e9}],
    ),
    (
        recommend_messages.PinBody,
        [PIN, PIN | {"position": 1000}],
        [PIN | {"position": 0}, PIN | {"position": 1001}],
    ),
    (RULES, [{"diversity": 0}, {"diversity": 1}], [{"diversity": -0.1}, {"diversity": 1.1}]),
    (RULES, [{"boosts": [BOOST] * 64}, {"pins": [PIN] * 64}], [{"boosts": [BOOST] * 65}, {"pins": [PIN] * 65}]),
    (RULES, [{"most_per": fields(64)}, {"most_per": {"a": 1000}}], [{"most_per": fields(65)}, {"most_per": {"a": 0}}]),
    (RULES, [], [{"most_per": {"a": 1001}}]),
    *(
        (kind, [{"limit": 1}, {"limit": 1000}], [{"limit": 0}, {"limit": 1001}])
        for kind in (search_messages.Search, search_messages.UserSearch, search_messages.FeatureSearch)
    ),
    (search_messages.FeatureSearch, [{"field": "x"}, {"field": "x" * 512}], [{"field": ""}, {"field": "x" * 513}]),
    (
        search_messages.SchemaQuery,
        [{"limit": 1}, {"limit": 256}, {"values": 0}, {"values": 50}],
        [{"limit": 0}, {"limit": 257}, {"values": -1}, {"values": 51}],
    ),
    (search_messages.NearestQuery, [{"feature": "x" * 4096}], [{"feature": ""}, {"feature": "x" * 4097}]),
    (search_messages.NearestQuery, [{"feature": "x", "n": 1000}], [{"feature": "x", "n": 0}, {"feature": "x", "n": 1001}]),
    (search_messages.ChangedQuery, [{"n": 1}, {"n": 1000}], [{"n": 0}, {"n": 1001}]),
    (live_messages.LiveQuery, [{"since": -1}, {"since": 2**53}], [{"since": -2}, {"since": 2**53 + 1}]),
]


@pytest.mark.parametrize(("kind", "good", "bad"), BOUNDS)
def test_a_part_of_a_request_goes_so_far_and_no_farther(kind: Any, good: list[Any], bad: list[Any]) -> None:
    assert [given for given in good if refused(kind, given)] == []
    assert [given for given in bad if not refused(kind, given)] == []
