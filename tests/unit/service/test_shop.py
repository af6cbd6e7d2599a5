"""What a shop asks for over HTTP: kinds of events, conditions, lists, rules, pages, visitors, and whole numbers as ids."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from api import SCHEMA, Api

from coldstream.lists import rules
from coldstream.runtime.learner import Learner
from coldstream.runtime.records import record_of
from coldstream.service.messages import recommend as recommend_messages
from patience import until

KINDS = """
[feedback]
view = 0.2
purchase = 1
dislike = -1
"""
BRANDED = SCHEMA.replace("price = ", 'brand = { kind = "category" }\ntitle = { kind = "title" }\nprice = ') + KINDS


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("shop"), schema=BRANDED).start()
    items = [
        {
            "id": f"i{n}",
            "attributes": {"brand": f"b{n % 4}", "genre": [f"g{n % 3}", f"g{n % 5}"], "price": n, "title": f"No {n}"},
        }
        for n in range(24)
    ]
    assert served.call("POST", "/items", items).status == 200
    events = [{"user": f"u{n % 5}", "item": f"i{n * 7 % 24}", "kind": ("view", "purchase")[n % 2]} for n in range(40)]
    assert served.call("POST", "/events", events).status == 200
    yield served
    served.stop()


def asked(api: Api, **request: Any) -> list[str]:
    answer = api.call("POST", "/recommend", {"n": 24, **request})
    assert answer.status == 200, answer.json
    return [one["item"] for one in answer.json["items"]]


# Kinds of events


def test_an_event_has_a_kind_and_a_line_of_the_log_has_it_where_it_is_given(api: Api) -> None:
    for event in ({"kind": "view"}, {}):
        assert api.call("POST", "/events", {"user": "kim", "item": "i3", "time": 60, **event}).status == 200
    lines = [json.loads(entry.body) for entry in api.service._store.read(api.service.learner.position - 2)]
    assert lines[-2] == {"kind": "event", "user": "kim", "item": "i3", "time": 60.0, "feedback": "view"}
    assert lines[-1] == {"kind": "event", "user": "kim", "item": "i3", "time": 60.0}


def test_an_undeclared_kind_is_refused_with_its_place(api: Api) -> None:
    before = api.service.learner.position
    bad = [{"user": "a", "item": "i1", "kind": "view"}, {"user": "a", "item": "i1", "kind": "click"}]
    refused = api.call("POST", "/events", bad)
    assert (refused.status, refused.json["field"]) == (422, "$[1].kind")
    assert "got 'click'; use one of view, purchase, dislike" in refused.json["detail"]
    assert api.service.learner.position == before


def test_a_dislike_is_not_recommended_again_and_a_view_is(api: Api) -> None:
    for kind, item in (("view", "i1"), ("dislike", "i2"), ("purchase", "i3")):
        api.call("POST", "/events", {"user": "lou", "item": item, "kind": kind})
    listed = asked(api, user="lou")
    assert "i1" in listed
    assert not {"i2", "i3"} & set(listed)


def test_the_schema_tells_the_kinds(api: Api) -> None:
    assert api.call("GET", "/schema").json["feedback"] == {"view": 0.2, "purchase": 1.0, "dislike": -1.0}


def test_only_what_was_wanted_and_had_is_tested_live(api: Api) -> None:
    tested = api.call("GET", "/evaluation").json["tested"]
    for kind in ("view", "dislike"):
        api.call("POST", "/events", {"user": "u1", "item": "i5", "kind": kind})
    assert api.call("GET", "/evaluation").json["tested"] == tested
    api.call("POST", "/events", {"user": "u1", "item": "i5", "kind": "purchase"})
    assert api.call("GET", "/evaluation").json["tested"] == tested + 1


def test_a_dislike_is_no_choice_on_the_page(api: Api) -> None:
    def chosen() -> int:
        return next(one["chosen"] for one in api.call("GET", "/items?search=i23").json["items"])

    before = chosen()
    api.call("POST", "/events", {"user": "max", "item": "i23", "kind": "dislike"})
    assert chosen() == before
    api.call("POST", "/events", {"user": "max", "item": "i23", "kind": "purchase"})
    assert chosen() == before + 1


def test_a_log_with_kinds_replays_to_the_same_bits(api: Api) -> None:
    chosen = api.service.learner.evaluation.choices(api.service.recommender.engine.place("i23"))
    for kind in ("dislike", "view", "purchase"):
        assert api.call("POST", "/events", {"user": "max", "item": "i23", "kind": kind}).status == 200
    (first, *rest) = api.service._store.read(0)
    again = Learner.begun(record_of(first), first.position)  # type: ignore[arg-type]
    again.replay(rest)
    ours, theirs = again.recommender.state()[1], api.service.recommender.state()[1]
    assert {name: array.tobytes() for name, array in ours.items()} == {n: a.tobytes() for n, a in theirs.items()}
    assert again.evaluation.choices(again.recommender.engine.place("i23")) == chosen + 1  # what was bought alone


# Conditions


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"price": {"max": 3}}, {0, 1, 2, 3}),
        ({"price": {"min": 20, "max": 22}}, {20, 21, 22}),
        ({"genre": {"all": ["g1", "g2"]}}, {n for n in range(24) if {n % 3, n % 5} == {1, 2}}),
        ({"genre": {"not": ["g0", "g1"]}, "price": {"max": 9}}, {n for n in range(10) if not {n % 3, n % 5} & {0, 1}}),
        ({"brand": {"any": ["b0", "b1"], "not": "b1"}}, set(range(0, 24, 4))),
    ],
)
def test_conditions(api: Api, where: dict[str, Any], expected: set[int]) -> None:
    assert set(asked(api, where=where)) == {f"i{n}" for n in expected}
    path = f"/new?n=24&where={quote(json.dumps(where))}"
    assert {one["item"] for one in api.call("GET", path).json["items"]} == {f"i{n}" for n in expected}


MANY = {"genre": {"any": ["x"] * 200, "not": ["y"] * 200}} | {f"f{n}": ["x"] * 256 for n in range(15)}


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"where": {"price": {"most": 3}}}, "$.where.price", "known are any, all, not, min, max"),
        ({"where": {"price": {"max": [3]}}}, "$.where.price", "must be a finite number"),
        ({"where": {"price": {"max": {"x": 1}}}}, "$.where.price.max", "must be"),
        ({"where": {"title": "No 1"}}, "$.where.title", "unknown field 'title'"),
        ({"rules": {"most_per": {"colour": 2}}}, "$.rules.most_per", "must name an item field of categories (genre, brand)"),
        ({"rules": {"boosts": [{"where": {"colour": "red"}}]}}, "$.rules.boosts[0].where.colour", "unknown field 'colour'"),
        ({"rules": {"diversity": 1.5}}, "$.rules.diversity", "must be a number from 0 to 1, got 1.5"),
        ({"rules": {"pins": [{"item": "i1", "position": 0}]}}, "$.rules.pins[0].position", "from 1 to 1000, got 0"),
        ({"rules": {"pins": [{"item": f"i{n}", "position": 1} for n in (1, 2)]}}, "$.rules.pins", "different positions"),
        ({"rules": {}, "n": 101}, "$.n", "must be at most 100 with rules"),
        ({"rules": {"boosts": [{"where": {}}]}, "explain": True}, "$.explain", "explain must be left out with boosts"),
        ({"user": "u1", "history": ["i1"]}, "$.history", "history must be left out for a user"),
        ({"where": MANY}, "$.where", "must not have more than 4096 values together, got 4240"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for(api: Api, body: dict[str, Any], field: str, said: str) -> None:
    refused = api.call("POST", "/recommend", body)
    assert (refused.status, refused.json["field"]) == (422, field), refused.json
    assert said in refused.json["detail"]


# Lists


def test_lists_give_items_and_their_attributes(api: Api) -> None:
    for path in ("/items/i1/similar", "/trending", "/new"):
        answer = api.call("GET", f"{path}?n=3&describe=true").json["items"]
        assert 0 < len(answer) <= 3
        assert all(one["attributes"]["title"] == f"No {one['item'][1:]}" for one in answer)
        assert "attributes" not in api.call("GET", path).json["items"][0]
    assert "i1" not in [one["item"] for one in api.call("GET", "/items/i1/similar?n=24").json["items"]]
    assert api.call("GET", "/new?n=1").json["items"][0]["item"] == "i23"


def test_similar_is_behind_an_id_that_may_hold_a_slash(api: Api) -> None:
    api.call("PUT", "/items/a%2Fsimilar", {"attributes": {"brand": "b1"}})
    api.call("PUT", "/items/a%2Fb", {"attributes": {"brand": "b1"}})
    try:
        assert api.call("GET", "/items/a%2Fsimilar", decoded=True).json["id"] == "a/similar"
        assert "items" in api.call("GET", "/items/a%2Fb/similar", decoded=True).json
        assert "items" in api.call("GET", "/items/a%2Fsimilar/similar", decoded=True).json
        assert api.call("GET", "/items/a/b/similar").status == 404
        assert api.call("GET", "/items/nothing/similar").status == 404
        refused = api.call("PUT", "/items/i1/similar", {"attributes": {}})
        assert (refused.status, refused.headers["allow"]) == (405, "GET")
    finally:
        for name in ("a%2Fsimilar", "a%2Fb"):
            api.call("DELETE", f"/items/{name}")


@pytest.mark.parametrize(
    "path", ["/new?where=x", "/new?where=[1]", "/trending?half_life=0", "/new?n=0", "/trending?where={}x"]
)
def test_a_list_that_cannot_be_asked_for(api: Api, path: str) -> None:
    assert api.call("GET", quote(path, safe="/?=")).status == 422


# Rules, and pages


def test_rules_hold(api: Api) -> None:
    rules = {"most_per": {"brand": 1}, "pins": [{"item": "i9", "position": 2}], "diversity": 0.3}
    listed = asked(api, user="u1", n=4, rules=rules)
    assert listed[1] == "i9"
    assert len({int(item[1:]) % 4 for item in listed}) == 4
    forward = asked(api, n=3, rules={"boosts": [{"where": {"brand": "b2"}, "factor": 1e6}]})
    assert {int(item[1:]) % 4 for item in forward} == {2}
    why = api.call("POST", "/recommend", {"n": 2, "explain": True, "rules": {"most_per": {"brand": 1}}}).json["items"]
    assert all(one["why"] for one in why)


def test_pages_repeat_nothing_and_come_to_an_end(api: Api) -> None:
    whole, seen = asked(api, user="u2"), []
    first = api.call("POST", "/recommend", {"user": "u2", "n": 7, "remember": True}).json
    page = first
    while page["items"]:
        seen += [one["item"] for one in page["items"]]
        page = api.call("POST", "/recommend", {"user": "u2", "n": 7, "next_of": page["recommendation_id"]}).json
    assert seen == whole
    again = api.call("POST", "/recommend", {"user": "u2", "n": 7, "next_of": first["recommendation_id"]}).json
    assert [one["item"] for one in again["items"]] == whole[7:14]
    assert "recommendation_id" not in api.call("POST", "/recommend", {"user": "u2"}).json
    unknown = api.call("POST", "/recommend", {"next_of": "nothing"})
    assert unknown.status == 404
    assert "ask for the first page again" in unknown.json["detail"]


def test_click_through_is_counted_by_position(api: Api) -> None:
    def positions() -> dict[int, tuple[int, int]]:
        listed = api.call("GET", "/evaluation").json.get("positions", [])
        return {one["position"]: (one["shown"], one["taken"]) for one in listed}

    before = positions()
    first = api.call("POST", "/recommend", {"user": "u4", "n": 3, "remember": True}).json
    page = api.call("POST", "/recommend", {"user": "u4", "n": 2, "next_of": first["recommendation_id"]}).json
    taken = [(first, 1), (first, 1), (page, 0)]
    for answer, n in taken:
        event = {"user": "u4", "item": answer["items"][n]["item"], "recommendation_id": answer["recommendation_id"]}
        assert api.call("POST", "/events", event).status == 200
    for name in (first["recommendation_id"], "unheard of"):
        assert api.call("POST", "/events", {"user": "u4", "item": "i0", "recommendation_id": name}).status == 200
    after = positions()
    change = {n: tuple(new - old for new, old in zip(own, before.get(n, (0, 0)), strict=True)) for n, own in after.items()}
    assert {n: own for n, own in change.items() if own != (0, 0)} == {1: (1, 0), 2: (1, 1), 3: (1, 0), 4: (1, 1), 5: (1, 0)}
    line = json.loads(list(api.service._store.read(api.service.learner.position - 1))[-1].body)
    assert line["recommendation_id"] == "unheard of"


# Visitors and ids


def test_a_visitor_is_known_by_a_history(api: Api) -> None:
    listed = asked(api, history=["i1", "i2", "nothing"])
    assert not {"i1", "i2"} & set(listed)
    assert len(listed) == 22


def test_whole_numbers_are_ids(api: Api) -> None:
    assert api.call("POST", "/items", {"id": 77, "attributes": {"brand": "b1"}}).status == 200
    try:
        assert api.call("GET", "/items/77").json["id"] == "77"
        assert api.call("POST", "/users", [{"id": -5}]).status == 200
        assert api.call("POST", "/events", {"user": -5, "item": 77, "kind": "purchase"}).status == 200
        both = {"exclude_seen": False}
        assert asked(api, user="-5", allow=[77, "i1"], **both) == asked(api, user=-5, allow=["77", "i1"], **both)
        assert asked(api, user=-5, allow=[77]) == []
        assert asked(api, deny=[77], allow=[77]) == []
        assert asked(api, history=[77], allow=[77]) == []
        assert api.call("POST", "/explain", {"user": -5, "item": 77}).status == 200
        for body in ({"user": 1.5, "item": "i1"}, {"user": True, "item": "i1"}, {"user": 2**63, "item": "i1"}):
            assert api.call("POST", "/events", body).status == 422
    finally:
        api.call("DELETE", "/items/77")


def test_where_items_have_to_be_put_an_unknown_one_is_refused(tmp_path: Path) -> None:
    api = Api(tmp_path, schema="open_items = false\n" + SCHEMA).start()
    try:
        refused = api.call("POST", "/events", {"user": "ann", "item": "i1"})
        assert (refused.status, refused.json["field"]) == (422, "$.item")
        api.call("PUT", "/items/i1", {})
        assert api.call("POST", "/events", {"user": "ann", "item": "i1"}).status == 200
    finally:
        api.stop()


# Lines


def lines_of(*records: Any) -> bytes:
    return b"".join((own if isinstance(own, bytes) else json.dumps(own).encode()) + b"\n" for own in records)


def sent(api: Api, path: str, body: bytes | list[bytes]) -> Any:
    return api.call("POST", path, raw=body, headers={"content-type": "application/x-ndjson"})


def test_lines_are_taken_one_by_one(api: Api) -> None:
    before = api.service.learner.position
    events = [{"user": f"l{n}", "item": "i1", "event_id": f"line-{n}"} for n in range(4)]
    body = lines_of(
        events[0], b"", {"user": "l", "item": "i1", "kind": "click"}, b"{", events[1], {"user": "l"}, b"  ", *events[2:]
    )
    answer = sent(api, "/events", [body[:30], body[30:31], body[31:]])
    assert answer.status == 200
    told = answer.json
    assert (told["lines"], told["taken"], told["duplicates"], told["refused"]) == (7, 4, 0, 3)
    assert [one["line"] for one in told["refusals"]] == [3, 4, 6]
    assert [one.get("field") for one in told["refusals"]] == ["$.kind", "$", "$"]
    assert told["position"] == before + 4
    again = sent(api, "/events", body.rstrip()).json
    assert (again["taken"], again["duplicates"], again["refused"]) == (0, 4, 3)


def test_lines_may_be_any_number_of_items_and_users(api: Api) -> None:
    put = sent(
        api,
        "/items",
        lines_of(
            *({"id": n, "attributes": {"brand": "lines"}} for n in range(2500)), {"id": "x", "attributes": {"size": 1}}
        ),
    )
    assert (put.json["taken"], put.json["refused"]) == (2500, 1)
    assert put.json["refusals"][0]["line"] == 2501
    assert len(asked(api, n=1000, where={"brand": "lines"})) == 1000
    assert sent(api, "/users", lines_of({"id": "line user", "attributes": {"country": "NL"}})).json["taken"] == 1
    assert api.call("GET", "/users/line%20user").json["attributes"] == {"country": "NL"}
    assert sent(api, "/users", b"").json["lines"] == 0


def test_a_line_that_is_too_long_ends_it_and_other_calls_take_no_lines(api: Api) -> None:
    long = b'{"user": "' + b"x" * (api.service.settings.body_bytes + 1)
    position = api.service.learner.position
    answer = sent(api, "/events", [lines_of({"user": "a", "item": "i1"}) + long[:100], long[100:], b"x"])
    assert (answer.status, "line 2 must not be longer" in answer.json["detail"]) == (413, True)
    assert api.service.learner.position == position + 1  # line 1 is taken
    assert (answer.json["taken"], answer.json["next_line"], answer.json["position"]) == (1, 2, position + 1)
    assert sent(api, "/recommend", b"{}").status == 415
    compressed = {"content-type": "application/x-ndjson", "content-encoding": "gzip"}
    assert api.call("POST", "/events", raw=b"x", headers=compressed).status == 415


# Sessions


def test_a_session_is_folded_into_a_user_and_erased_with_the_user(tmp_path: Path) -> None:
    api = Api(tmp_path, schema=BRANDED, erase_minutes=0.0).start()
    try:
        api.call("POST", "/items", [{"id": f"i{n}"} for n in range(5)])
        for user, item in (("visit-17", "i1"), ("ann", "i2"), ("bob", "i3")):
            api.call("POST", "/events", {"user": user, "item": item, "context": {"device": f"of {user}"}})
        assert api.call("POST", "/users/ann/merge", {"session": "visit-17"}).json["written"] == 1
        assert {one["item"] for one in api.call("POST", "/recommend", {"user": "ann"}).json["items"]} == {"i0", "i3", "i4"}
        assert api.call("GET", "/users/visit-17").status == 404
        for session, status in (("visit-17", 404), ("ann", 422), (7, 404)):
            assert api.call("POST", "/users/ann/merge", {"session": session}).status == status
        assert b"visit-17" in _log(api)
        assert api.call("DELETE", "/users/ann").status == 200
        api.run(until(lambda: not api.service.writer.erasures.pending))
        kept = _log(api)
        assert b"visit-17" not in kept
        assert b"ann" not in kept
        assert b"bob" in kept
        features = api.call("GET", "/features?search=of").json["features"]
        assert features == ["context.device=of bob"]
    finally:
        api.stop()


def _log(api: Api) -> bytes:
    return b"\n".join(entry.body for entry in api.service._store.read(0))


def test_a_request_may_have_as_many_rules_as_the_library_takes() -> None:
    assert recommend_messages.MOST_RULES == rules.MOST_RULES
