"""Filters: every condition gives what going through the items one by one gives, whatever has changed in between."""

from collections.abc import Callable
from typing import Any

import pytest

from coldstream import (
    Categories,
    Category,
    Event,
    Id,
    Image,
    InvalidInput,
    InvalidSchema,
    Number,
    Recommender,
    Schema,
    Title,
)
from coldstream.catalogue import conditions

SCHEMA = Schema(
    item=[
        Id(),
        Category("brand"),
        Categories("tags"),
        Number("price", scale=10),
        Number("size", bins=(2, 4)),
        Title(),
        Image(),
    ]
)


def made(items: int = 40) -> Recommender:
    recommender = Recommender(SCHEMA, factors=2, negatives=2)
    recommender.put_items((f"i{n}", attributes(n)) for n in range(items))
    return recommender


def attributes(n: int) -> dict[str, Any]:
    own: dict[str, Any] = {"brand": f"b{n % 4}", "tags": [f"t{n % 3}", f"t{n % 5}"], "price": 1.5 * n, "size": n % 6}
    for name, rare in (("brand", 7), ("tags", 9), ("price", 11)):
        if n % rare == 3:
            del own[name]
    return own


def by_hand(recommender: Recommender, meets: Callable[[dict[str, Any]], bool]) -> set[str]:
    return {item for item in recommender.items() if meets(recommender.item(item))}


CONDITIONS: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
    ({"price": {"max": 30}}, lambda own: own.get("price", 99) <= 30),
    ({"price": {"min": 15, "max": 30}}, lambda own: 15 <= own.get("price", 99) <= 30),
    ({"price": {"min": 15.0}}, lambda own: own.get("price", -1) >= 15),
    ({"size": {"min": 3}}, lambda own: own["size"] >= 3),
    ({"size": 5}, lambda own: own["size"] >= 4),
    ({"brand": "b1"}, lambda own: own.get("brand") == "b1"),
    ({"brand": ["b1", "b2"]}, lambda own: own.get("brand") in ("b1", "b2")),
    ({"brand": {"any": ["b1", "b2"]}}, lambda own: own.get("brand") in ("b1", "b2")),
    ({"brand": {"not": "b1"}}, lambda own: own.get("brand") != "b1"),
    ({"brand": {"not": ["b1", "unheard of"]}}, lambda own: own.get("brand") != "b1"),
    ({"tags": {"all": ["t1", "t2"]}}, lambda own: {"t1", "t2"} <= set(own.get("tags", ()))),
    ({"tags": {"all": ["t1", "unheard of"]}}, lambda own: False),
    (
        {"tags": {"any": ["t1", "t2"], "not": ["t4"]}},
        lambda own: bool({"t1", "t2"} & set(own.get("tags", ()))) and "t4" not in own["tags"],
    ),
    ({"tags": {"not": ["t0", "t1"]}}, lambda own: not {"t0", "t1"} & set(own.get("tags", ()))),
    ({"tags": {"all": []}}, lambda own: True),
    ({"tags": {"any": []}}, lambda own: False),
    (
        {"brand": {"not": "b0"}, "tags": {"any": "t2"}, "price": {"max": 45}},
        lambda own: own.get("brand") != "b0" and "t2" in own.get("tags", ()) and own.get("price", 99) <= 45,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("where", "meets"), CONDITIONS, ids=[str(where) for where, _ in CONDITIONS])
def test_a_condition_is_what_going_through_the_items_gives(where: dict, meets: Callable[[dict], bool]) -> None:
    recommender = made()

    def check() -> None:
        found = {best.item for best in recommender.recommend(None, 100, where=where)}
        assert found == by_hand(recommender, meets)
        assert {best.item for best in recommender.newest(100, where=where)} == found

    check()
    recommender.put_item("i4", {"brand": "b1", "tags": ["t1", "t2"], "price": 20, "size": 1})
    check()
    recommender.remove_item("i5")
    recommender.put_items((f"n{n}", attributes(n + 3)) for n in range(60))
    check()
    recommender.put_item("i4", {"size": 1})
    recommender.learn(Event("ann", "i1"))
    check()
    recommender.put_item("i5", {"brand": "b1", "tags": ["t2"], "price": 1, "size": 5})
    again = Recommender.from_state(*recommender.state())
    check()
    assert again.recommend(None, 100, where=where) == recommender.recommend(None, 100, where=where)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"max": 0}, {"-1e30", "-7.5", "0"}),
        ({"max": -8}, {"-1e30"}),
        ({"min": -7.5}, {"-7.5", "0", "7.5", "1e30"}),
        ({"min": 8}, {"1e30"}),
        ({"min": -8, "max": 8}, {"-7.5", "0", "7.5"}),
    ],
)
def test_a_range_without_an_end_has_none(condition: dict[str, float], found: set[str]) -> None:
    recommender = Recommender(Schema(item=[Id(), Number("price", scale=1e30)]), factors=2, negatives=2)
    for price in ("-1e30", "-7.5", "0", "7.5", "1e30"):
        recommender.put_item(price, {"price": float(price)})
    recommender.put_item("without a price", {})
    assert {best.item for best in recommender.recommend(None, 9, where={"price": condition})} == found


def test_filters_hold_together_with_ids_and_leave_a_kept_mask_as_it_was() -> None:
    recommender, where = made(), {"price": {"max": 6}}
    whole = {best.item for best in recommender.recommend(None, 50, where=where)}
    assert whole == {"i0", "i1", "i2", "i4"}
    assert {best.item for best in recommender.recommend(None, 50, where=where, deny=["i1"])} == whole - {"i1"}
    recommender.put_item("i0", attributes(0), hidden=True)
    assert {best.item for best in recommender.recommend(None, 50, where=where, time=5.0)} == whole - {"i0"}
    recommender.put_item("i0", attributes(0))
    assert {best.item for best in recommender.recommend(None, 50, where=where)} == whole


def test_the_same_filter_is_worked_out_once_until_items_change(monkeypatch: pytest.MonkeyPatch) -> None:
    recommender, looks = made(), []
    monkeypatch.setattr("coldstream.catalogue.catalogue.having", lambda *given: looks.append(1) or conditions.having(*given))
    for _ in range(3):
        recommender.recommend(None, where={"brand": "b1", "price": {"max": 9}})
    assert len(looks) == 1
    recommender.put_item("i1", attributes(2))
    recommender.recommend(None, where={"brand": "b1", "price": {"max": 9}})
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"price": {"least": 3}}, "where: price has an unknown condition 'least' = 3; known are any, all, not, min, max"),
        ({"price": {}}, "where: price must have a condition, got {}; give one of any, all, not, min, max"),
        ({"price": {"max": "much"}}, "where: max of price must be a finite number, got 'much'"),
        ({"price": {"max": True}}, "where: max of price must be a finite number"),
        ({"price": {"min": float("inf")}}, "where: min of price must be a finite number"),
        ({"brand": {"min": 3}}, "where: brand is no number and has no range, got {'min': 3}; give any, all or not"),
        ({"price": 3}, "where: price is a number, got 3; give a range such as"),
        ({"price": {"not": 3}}, "where: price is a number, got 3; give a range such as"),
        ({"title": "x"}, "where: unknown field 'title'"),
    ],
)
def test_a_condition_that_cannot_be_met_is_refused(where: dict, said: str, unchanged: Callable[..., str]) -> None:
    recommender = made(3)
    assert unchanged(recommender, InvalidInput, lambda: recommender.recommend(None, where=where)).startswith(said)


# What is only shown


def test_titles_and_pictures_are_kept_and_are_no_features() -> None:
    recommender = made(3)
    before = recommender.size.features
    recommender.put_item("i0", {**attributes(0), "title": "A plain title", "image": "https://example.org/0.jpg"})
    assert recommender.item("i0")["title"] == "A plain title"
    assert recommender.size.features == before
    again = Recommender.from_state(*recommender.state())
    assert again.item("i0") == recommender.item("i0")
    assert again.explain(None, "i0") == recommender.explain(None, "i0")


@pytest.mark.parametrize("title", [3, ["a"], "x" * 1025, True])
def test_a_title_is_a_text(title: object, unchanged: Callable[..., str]) -> None:
    recommender = made(1)
    said = unchanged(recommender, InvalidInput, lambda: recommender.put_item("x", {"title": title}))
    assert said.startswith("item 'x': title must be a text of at most 1024 characters")


def test_there_is_one_title_and_it_is_an_items() -> None:
    with pytest.raises(InvalidSchema, match="more than one field of kind 'title'"):
        Schema(item=[Title(), Title("name")])
    with pytest.raises(InvalidSchema, match="belongs to item"):
        Schema(user=[Title()])


# Items that have to be put


def test_where_items_have_to_be_put_an_unknown_one_is_refused(unchanged: Callable[..., str]) -> None:
    recommender = Recommender(Schema(open_items=False), factors=2, negatives=2)
    recommender.put_item("i1")
    recommender.learn(Event("ann", "i1"))
    bad = Event("ann", "i2")
    for action in (
        lambda: recommender.learn(bad),
        lambda: recommender.learn([Event("ann", "i1"), bad]),
        lambda: recommender.observe(bad),
        lambda: recommender.train([bad]),
        lambda: recommender.engine.replay([(9, bad)]),
    ):
        said = unchanged(recommender, InvalidInput, action)
        assert said == "item must be one that was put, got 'i2'; put it first, or set open_items"
    assert Schema.from_document(recommender.schema.document()).open_items is False
    assert "open_items" not in Schema().document()
