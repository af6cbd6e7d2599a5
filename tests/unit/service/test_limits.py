"""What one reader asks for is bounded, answered in pages, and holds up nobody."""

import math
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from api import Api

from coldstream.catalogue.combinations import CombinationTable
from coldstream.features.vocabulary import Vocabulary
from coldstream.lists import explanation, inspection
from coldstream.service.handlers import recommend as recommend_handlers
from coldstream.service.messages import core as messages

TAGS = [f"tag-{n}" for n in range(256)]
ITEMS = 120


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("limits")).start()
    genres = [[f"g{m}" for m in range(n % 40)] for n in range(ITEMS)]
    items = [{"id": f"i{n}", "attributes": {"genre": own, "price": n % 9}} for n, own in enumerate(genres)]
    served.call("POST", "/items", items)
    fields = {"tags": TAGS} | {f"set{n}": [f"v{n}-{m}" for m in range(256)] for n in range(14)}
    for first in range(0, len(fields), 3):  # one event brings a thousand new features at most
        some = dict(list(fields.items())[first : first + 3])
        event = {"user": "ann", "item": "i1", "context": {**some, "device": "phone"}}
        assert served.call("POST", "/events", event).status == 200
    served.call("POST", "/users", [{"id": f"user-{n}"} for n in range(40)])
    yield served
    served.stop()


def context_of(api: Api, fields: int) -> dict[str, Any]:
    """A context of known values: 256 a field."""
    return {"tags": TAGS} | {f"set{n}": [f"v{n}-{m}" for m in range(256)] for n in range(fields - 1)}


# Why


def test_a_hundred_explanations_of_a_large_context_share_their_terms(api: Api) -> None:
    asked = {"user": "ann", "n": 100, "explain": True, "context": {"tags": TAGS}, "time": 60}
    answer = api.call("POST", "/recommend", asked)
    listed = answer.json["items"]
    assert len(listed) == 100
    assert sum(len(one["why"]) for one in listed) <= messages.MOST_TERMS
    assert len(answer.body) < 1_000_000
    for one in listed[::9]:
        values = [term["value"] for term in one["why"]]
        assert one["score"] == pytest.approx(math.fsum(values), rel=1e-4, abs=1e-4)
        told = api.call("POST", "/explain", {"item": one["item"], **{k: asked[k] for k in ("user", "context", "time")}})
        assert told.json["score"] == one["score"]
        assert told.json["terms"][:5] == one["why"][:5]
    asked["context"] = {"tags": TAGS[:3]}
    detailed = [one for one in api.call("POST", "/recommend", asked).json["items"] if int(one["item"][1:]) % 40 > 20]
    assert len(detailed) > 20
    for one in detailed[::9]:
        assert len(one["why"]) == 50
        assert one["why"][-1]["features"] == [explanation.REST]
        assert one["score"] == pytest.approx(math.fsum(term["value"] for term in one["why"]), rel=1e-4, abs=1e-4)


def test_more_than_a_hundred_are_not_explained_at_once(api: Api) -> None:
    assert len(api.call("POST", "/recommend", {"n": 110}).json["items"]) == 110
    refused = api.call("POST", "/recommend", {"n": 101, "explain": True})
    assert (refused.status, refused.json["field"]) == (422, "$.n")
    assert "at most 100 with explain, got 101" in refused.json["detail"]


def test_thousands_of_features_are_explained_by_field(api: Api) -> None:
    answer = api.call("POST", "/explain", {"user": "ann", "item": "i39", "context": context_of(api, 15)})
    assert answer.status == 200
    terms = answer.json["terms"]
    assert len(terms) <= 300
    assert {"context.tags", "context.set13"} <= {name for term in terms for name in term["features"]}
    assert answer.json["score"] == pytest.approx(math.fsum(term["value"] for term in terms), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("path", ["/recommend", "/explain"])
def test_more_values_than_can_be_looked_at_are_refused_with_the_limit(api: Api, path: str) -> None:
    asked = {"context": context_of(api, 15), "attributes": {"country": "NL"}, "item": "i1"}
    if path == "/recommend":
        del asked["item"]
    assert api.call("POST", path, asked).status == 200
    asked["context"] = context_of(api, 14) | {f"more{n}": TAGS for n in range(3)}
    refused = api.call("POST", path, asked)
    assert (refused.status, refused.json["field"]) == (422, "$.context")
    assert "must not have more than 4096 values together, got 4353" in refused.json["detail"]


def test_terms_are_made_beside_the_event_loop(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    where = set[int]()

    def watched(*given: Any) -> Any:
        where.add(threading.get_ident())
        return explanation.explained(*given)

    monkeypatch.setattr(recommend_handlers, "explained", watched)
    assert api.call("POST", "/recommend", {"n": 3, "explain": True}).status == 200
    assert api.call("POST", "/explain", {"item": "i3"}).status == 200
    assert where
    assert api._thread.ident not in where


# Filters


def test_a_filter_looks_at_all_combinations_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[set[int]]()
    holding = CombinationTable.holding

    def watched(table: CombinationTable, columns: set[int]) -> Any:
        calls.append(columns)
        monkeypatch.setattr(table, "_numbers", None)  # it is not gone through
        return holding(table, columns)

    assert api.call("PUT", "/schema/fields", {"item": {"brand": {"kind": "category"}}}).status == 200
    api.call("PUT", "/items/branded", {"attributes": {"brand": "b1", "genre": ["g1", "g7"]}})
    api.call("PUT", "/items/unbranded", {"attributes": {"genre": ["g1", "g7"]}})
    with monkeypatch.context() as patched:
        patched.setattr(CombinationTable, "holding", watched)
        wanted = {"genre": ["nothing", *(f"g{n}" for n in range(1, 200))], "brand": ["b0", "b1"]}
        answer = api.call("POST", "/recommend", {"where": wanted, "n": 1000})
    assert [one["item"] for one in answer.json["items"]] == ["branded"]
    assert len(calls) == 1
    monkeypatch.undo()


# Pages


def paged(api: Api, path: str, kind: str) -> tuple[list[Any], int]:
    """All of a list, page by page, and how many pages there were."""
    found, after, pages = list[Any](), 0, 0
    while after is not None:
        answer = api.call("GET", f"{path}&after={after}").json
        found += answer[kind]
        after, pages = answer["next"], pages + 1
    return found, pages


@pytest.mark.parametrize(
    ("path", "kind", "total"),
    [
        ("/features?limit=500&search=SET3=V", "features", 256),
        ("/features?limit=90&field=context.set3", "features", 256),
        ("/features?limit=90&field=context.set3&search=-25", "features", 7),
        ("/users?limit=3&search=user-1", "users", 11),
        ("/users?limit=7", "users", None),
        ("/items?limit=20&search=g38", "items", None),
        ("/items?limit=33", "items", None),
    ],
)
def test_pages_together_are_everything_once(
    api: Api, monkeypatch: pytest.MonkeyPatch, path: str, kind: str, total: int | None
) -> None:
    whole, _ = paged(api, path, kind)
    names = [one["id"] if kind == "items" else one for one in whole]
    assert len(names) == len(set(names))
    if total is not None:
        assert len(names) == total
    if path == "/users?limit=7":
        assert set(names) == set(api.service.recommender.users())
    if path == "/items?limit=33":
        assert set(names) == set(api.service.recommender.items())
    monkeypatch.setattr(inspection, "MOST_LOOKED_AT", 10)
    again, pages = paged(api, path, kind)
    assert again == whole
    assert pages > 1


def test_a_page_looks_at_so_many_names_and_no_more(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[int]()
    owner = Vocabulary.owner_or_none

    def watched(vocabulary: Vocabulary, column: int) -> Any:
        looked.append(column)
        return owner(vocabulary, column)

    monkeypatch.setattr(Vocabulary, "owner_or_none", watched)
    monkeypatch.setattr(inspection, "MOST_LOOKED_AT", 100)
    answer = api.call("GET", "/features?search=nothing+has+this+name").json
    assert (answer["features"], answer["total"]) == ([], None)
    assert len(looked) <= 101
    looked.clear()
    assert len(api.call("GET", "/features?limit=5").json["features"]) == 5
    assert len(looked) <= 6
    looked.clear()
    assert api.call("GET", "/features?search=context.set9=v9-200").json["features"] == ["context.set9=v9-200"]
    document = api.call("GET", "/schema").json
    assert document["context"]["tags"]["known"] == 256
    assert len(document["context"]["tags"]["values"]) == 50
    assert len(looked) <= 101


def test_totals_come_from_an_index(api: Api) -> None:
    size = api.service.recommender.size
    assert api.call("GET", "/features?limit=1").json["total"] == size.features
    assert api.call("GET", "/users?limit=1").json["total"] == size.users
    assert api.call("GET", "/items?limit=1").json["total"] == size.items
    assert api.call("GET", "/features?limit=1&field=context.tags").json["total"] == 256
    assert api.call("GET", "/features?field=context.nothing").status == 404


def test_the_schema_comes_in_pages_of_fields(api: Api) -> None:
    whole = api.call("GET", "/schema").json
    assert whole["next"] is None
    found: dict[str, dict[str, Any]] = {"user": {}, "item": {}, "context": {}}
    after = 0
    while after is not None:
        page = api.call("GET", f"/schema?limit=4&after={after}&values=3").json
        assert sum(len(page[side]) for side in found) <= 4
        assert all(len(options.get("values", [])) <= 3 for side in found for options in page[side].values())
        for side, own in found.items():
            own.update(page[side])
        after = page["next"]
    assert {side: list(own) for side, own in found.items()} == {side: list(whole[side]) for side in found}
    assert api.call("GET", "/schema?limit=257").status == 422


def test_comparisons_with_all_features_take_turns(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "/features/nearest?feature=context.tags%3Dtag-7&n=12"
    whole = api.call("GET", asked).json["nearest"]
    with monkeypatch.context() as patched:
        patched.setattr(inspection, "STEP", 64)
        near = api.call("GET", asked).json["nearest"]
        steps = api.service.recommender.inspection.nearest_in_steps("context.tags=tag-7", 12)
        assert sum(1 for _ in steps) >= api.service.recommender.size.features // 64
    assert len(near) == 12
    assert [one["feature"] for one in near] == [one["feature"] for one in whole]
    api.call("GET", "/features/changed")
    api.call("POST", "/events", {"user": "ann", "item": "i2", "context": {"tags": TAGS[:9]}})
    moved = api.call("GET", "/features/changed?n=1000").json
    assert "context.tags=tag-3" in [one["feature"] for one in moved["changed"]]
    assert "context.tags=tag-99" not in [one["feature"] for one in moved["changed"]]
    monkeypatch.setattr(inspection, "STEP", 64)
    assert api.call("GET", "/features/changed?n=1000").json == moved


def test_a_page_of_users_goes_on_behind_the_last_one_shown(api: Api) -> None:
    api.call("POST", "/users", [{"id": f"paged.{n}"} for n in range(9)])
    first = api.call("GET", "/users?search=paged.&limit=4").json
    assert first["users"] == [f"paged.{n}" for n in range(4)]
    assert api.call("DELETE", "/users/paged.1").status == 200
    second = api.call("GET", "/users?search=paged.&limit=4&cursor=" + quote(first["cursor"])).json
    assert second["users"] == [f"paged.{n}" for n in range(4, 8)]
    skipped = api.call("GET", f"/users?search=paged.&limit=4&after={first['next']}").json
    assert skipped["users"][0] == "paged.5"  # as ever, for those who send `after`
    last = api.call("GET", "/users?search=paged.&limit=4&cursor=" + quote(second["cursor"])).json
    assert (last["users"], last["next"], last["cursor"]) == (["paged.8"], None, None)
    refused = api.call("GET", "/users?cursor=nonsense")
    assert (refused.status, refused.json["field"]) == (422, "$.cursor")
