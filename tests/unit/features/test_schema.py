"""Schemas: what they accept, what they refuse, and that TOML, documents and Python say the same."""

from pathlib import Path

import numpy as np
import pytest

from coldstream import (
    Again,
    Categories,
    Category,
    Follows,
    Id,
    InvalidInput,
    InvalidSchema,
    LastAttribute,
    LastItem,
    LastItems,
    LastTimePart,
    Number,
    Schema,
    TimePart,
    Title,
    Together,
    Trend,
)
from coldstream.features.fields import KINDS, Field, hour, weekday
from coldstream.features.schema import with_fields

TOML = """
exclude_seen = false

[user]
id = { kind = "id" }
age = { kind = "number", low = 0, high = 100 }
income = { kind = "number", bins = [10, 20.5] }
occupation = { kind = "category" }

[item]
id = { kind = "id" }
genre = { kind = "set", normalize = true }
price = { kind = "number", center = 10, scale = 5 }
hot = { kind = "trend", half_life = 500 }

[context]
device = { kind = "category", linear = true }
hour = { kind = "time", part = "hour" }
last_item = { kind = "last_item" }
last_items = { kind = "last_items", length = 3 }
last_genre = { kind = "last_attribute", of = "genre" }
last_day = { kind = "last_time", part = "weekday" }
"""

PYTHON = Schema(
    user=[Id(), Number("age", low=0, high=100), Number("income", bins=(10, 20.5)), Category("occupation")],
    item=[Id(), Categories("genre", normalize=True), Number("price", center=10, scale=5), Trend("hot", 500)],
    context=[
        Category("device", linear=True),
        TimePart("hour", part="hour"),
        LastItem(),
        LastItems(length=3),
        LastAttribute("last_genre", of="genre"),
        LastTimePart("last_day"),
    ],
    exclude_seen=False,
)


def test_toml_and_python_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(TOML)
    assert Schema.from_toml(path) == PYTHON
    assert Schema.from_document(PYTHON.document()) == PYTHON


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[user]\nid = { kind = 'ident' }", ["'id'", "'ident'", "known are id, category"]),
        ("[user]\nid = 3", ["'id'", "3", "a kind"]),
        ("[people]\nid = { kind = 'id' }", ["'people'", "user, item, context"]),
        ("[item]\nid = { kind = 'last_item' }", ["'id'", "'last_item'", "context"]),
        ("[item]\nyear = { kind = 'number', step = 3 }", ["'year'", "step = 3", "low, high"]),
        ("[item]\nyear = { kind = 'number', low = 3 }", ["'year'", "low and high", "(3, None)"]),
        ("[item]\nyear = { kind = 'number', low = 3, high = 1 }", ["(3, 1)", "low < high"]),
        ("[item]\nyear = { kind = 'number', scale = 0 }", ["scale", "got 0"]),
        ("[item]\nyear = { kind = 'number', bins = [2, 1] }", ["bins", "rising", "(2, 1)"]),
        ("[item]\nyear = { kind = 'number', bins = [2], low = 0, high = 1 }", ["one of low/high, center/scale and bins"]),
        ("[item]\nhot = { kind = 'trend', half_life = -1 }", ["half_life", "-1"]),
        ("[item]\na = { kind = 'id' }\nb = { kind = 'id' }", ["item", "more than one", "keep one"]),
        ("[context]\nday = { kind = 'time', part = 'month' }", ["'day'", "weekday, hour", "'month'"]),
        ("[context]\nx = { kind = 'last_items', length = 0 }", ["length", "got 0"]),
        ("[context]\nx = { kind = 'last_attribute', of = 'genre' }", ["'x'", "'genre'", "none"]),
        ("[context]\nx = { kind = 'category', linear = 2 }", ["linear", "got 2"]),
        ("exclude_seen = 'yes'", ["exclude_seen", "'yes'"]),
        ("[user]\nid = { kind = 'id' }\nid = { kind = 'id' }", ["cannot be read"]),
        ("not toml", ["cannot be read"]),
    ],
)
def test_a_wrong_schema_is_named(text: str, names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(InvalidSchema) as error:
        Schema.from_toml(path)
    for name in names:
        assert name in str(error.value)


def test_a_duplicate_field_is_named() -> None:
    with pytest.raises(InvalidSchema, match="duplicate field 'genre' on the item side"):
        Schema(item=[Category("genre"), Categories("genre")])


@pytest.mark.parametrize("side", [[3], "abc", [Category], None])
def test_a_side_is_a_list_of_fields(side: object) -> None:
    with pytest.raises(InvalidSchema, match="list of fields"):
        Schema(user=side)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSchema, match=r"nowhere\.toml"):
        Schema.from_toml(tmp_path / "nowhere.toml")


def test_completing_adds_only_what_is_not_declared() -> None:
    plain = Schema().completed(history=5, trends=[100, 2000], neighbours=7)
    assert [f.name for f in plain.context] == ["last_item", "last_items"]
    assert plain.context[1] == LastItems(length=5)
    assert [f.name for f in plain.item] == ["id", "trend_100", "trend_2000", "follows", "together"]
    assert plain.item[-1] == Together(length=7)
    assert Schema(exclude_seen=False).completed(history=0, trends=[], neighbours=7).item[-1] == Again()
    declared = Schema(item=[Id(), Trend("hot", 9), Follows("next")], context=[LastItem()])
    assert declared.completed(history=5, trends=[100], neighbours=7) == declared
    assert Schema().completed(history=0, trends=[], neighbours=0) == Schema()
    taken = Schema(item=[Id(), Category("trend_100")], context=[Category("last_item")])
    assert [f.name for f in taken.completed(history=5, trends=[100, 200], neighbours=0).item] == [
        "id",
        "trend_100",
        "trend_200",
    ]
    assert [f.name for f in taken.completed(history=5, trends=[], neighbours=0).context] == ["last_item", "last_items"]


@pytest.mark.parametrize(
    ("field", "raw", "expected"),
    [
        (Category("x"), "red", [("red", 1.0)]),
        (Category("x"), 7, [("7", 1.0)]),
        (Category("x"), True, [("true", 1.0)]),
        (Categories("x"), ["a", "b", "a"], [("a", 1.0), ("b", 1.0)]),
        (Categories("x"), [], []),
        (Categories("x", normalize=True), ["a", "b", "c", "d"], [(c, 0.5) for c in "abcd"]),
        (Number("x"), 2.5, [("", 2.5)]),
        (Number("x"), 0, []),
        (Number("x", low=10, high=20), 15, [("", 0.5)]),
        (Number("x", low=10, high=20), 99, [("", 1.0)]),
        (Number("x", center=10, scale=5), 5, [("", -1.0)]),
        (Number("x", bins=(18, 25)), 17, [("0", 1.0)]),
        (Number("x", bins=(18, 25)), 18, [("1", 1.0)]),
        (Number("x", bins=(18, 25)), 80, [("2", 1.0)]),
    ],
)
def test_kinds(field: Category, raw: object, expected: list) -> None:
    assert field.features("item 'i'", raw) == expected


@pytest.mark.parametrize(
    ("field", "raw"),
    [
        (Category("x"), 1.5),
        (Category("x"), None),
        (Category("x"), ["a"]),
        (Category("x"), "\ud800"),
        (Categories("x"), "Action"),
        (Categories("x"), 3),
        (Categories("x"), {"a": 1}),
        (Categories("x"), ["a", 1.5]),
        (Number("x"), "3"),
        (Number("x"), True),
        (Number("x"), float("nan")),
        (Number("x"), float("inf")),
        (Number("x"), 10**400),
        (Number("x"), 1e12),
        (Number("x"), None),
        (Number("x", low=0, high=1), float("nan")),
    ],
)
def test_a_wrong_value_is_named(field: Category, raw: object) -> None:
    with pytest.raises(InvalidInput, match="item 'b7': x ") as error:
        field.features("item 'b7'", raw)
    assert "got" in str(error.value)


def test_time_parts_are_utc() -> None:
    assert (weekday(0.0), hour(0.0)) == ("3", "0")  # 1970 began on a Thursday
    assert weekday(4 * 86400.0) == "0"
    assert (weekday(-1.0), hour(-1.0)) == ("2", "23")
    assert hour(86399.0) == "23"
    assert weekday(np.float64(1.5e9)) == "4"


def test_histories_are_as_long_as_the_guide_says() -> None:
    guide = (Path(__file__).resolve().parents[3] / "docs/guides/schema.md").read_text()
    assert LastItems().length == Together().length == 10
    assert guide.count("`length` (10)") == 2


@pytest.mark.parametrize("kind", sorted(KINDS.values(), key=lambda own: own.kind), ids=lambda own: own.kind)
def test_a_field_of_every_kind_has_a_name_and_may_be_linear(kind: type[Field]) -> None:
    needed = {"half_life": 3.0} if kind is Trend else {"of": "genre"} if kind is LastAttribute else {}
    assert kind(name="x", linear=True, **needed).linear
    for name in ("", 3, None):
        with pytest.raises(InvalidSchema, match="a field's name must be a string that is not empty"):
            kind(name=name, **needed)
    with pytest.raises(InvalidInput, match="a field's name must be valid Unicode"):
        kind(name="\ud800", **needed)
    with pytest.raises(InvalidSchema, match="linear must be true or false, got 1"):
        kind(name="x", linear=1, **needed)


@pytest.mark.parametrize("kind", [LastItems, Together])
def test_a_length_that_numpy_counted_is_a_plain_number(kind: type[LastItems] | type[Together]) -> None:
    field = kind(length=np.int64(7))
    assert type(field.length) is int
    assert field == kind(length=7)
    with pytest.raises(InvalidSchema, match="length"):
        kind(length=np.int64(0))


def test_fields_are_added_behind_those_in_use_and_bounds_may_change() -> None:
    used = Schema(user=[Id()], item=[Id(), Category("brand"), Number("price")], context=[Category("device")])
    added = with_fields(used, {"item": [Title(), Category("brand", most=5)], "context": [TimePart("hour", part="hour")]})
    assert added.item == (Id(), Category("brand", most=5), Number("price"), Title())
    assert added.context == (Category("device"), TimePart("hour", part="hour"))
    assert (added.user, added.exclude_seen) == (used.user, used.exclude_seen)
    assert with_fields(used, {}) == used


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ({"people": []}, "fields: unknown side 'people'; known are user, item, context"),
        ({"item": [Trend("hot")]}, "item field 'hot' of kind 'trend' cannot be added to what was learned without it"),
        ({"item": [Follows()]}, "item field 'follows' of kind 'follows' cannot be added"),
        ({"user": [Id()]}, "user field 'id' of kind 'id' cannot be added"),
        ({"item": [Categories("brand")]}, "item field 'brand' cannot change from {'kind': 'category'} to {'kind': 'set'}"),
        ({"item": [Category("brand", linear=True)]}, "item field 'brand' cannot change"),
    ],
)
def test_what_cannot_be_added_is_named(added: dict[str, list[Field]], said: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        with_fields(Schema(user=[], item=[Id(), Category("brand")]), added)
    assert str(refused.value).startswith(said)
