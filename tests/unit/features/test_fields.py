"""Kinds of field: the last value of an option that may be and the first that may not, and what is said where none is."""

from collections.abc import Callable
from typing import Any

import pytest

from coldstream import (
    Again,
    Categories,
    Category,
    Feedback,
    Follows,
    Id,
    Image,
    InvalidInput,
    InvalidSchema,
    LastAttribute,
    LastItem,
    LastItems,
    LastTimePart,
    Number,
    TimePart,
    Title,
    Together,
    Trend,
)
from coldstream.features.fields import Field


def made_with(kind: Callable[..., object], option: str) -> Callable[[Any], object]:
    return lambda value: kind("x", **{option: value})


OPTIONS: list[tuple[Callable[[Any], object], list[Any], list[Any]]] = [
    (made_with(Category, "most"), [None, 1, 2**31 - 1], [0, -1, 2**31, True, 1.0, "1"]),
    (made_with(Category, "admit_after"), [1, 255], [0, 256, True, 2.0, None]),
    (made_with(Category, "expire"), [None, 1, 2**53 - 1, "30d"], [0, -1, 2**53, True, 1.5, "30", "0d"]),
    (made_with(Categories, "normalize"), [True, False], [1, "yes", None]),
    (made_with(LastItems, "length"), [1, 1000], [0, 1001, True, 2.0]),
    (made_with(Together, "length"), [1, 1000], [0, 1001, True, 2.0]),
    (made_with(LastAttribute, "of"), ["genre"], ["", 3, None]),
    (made_with(Trend, "half_life"), [1e-3, 1e12, 5], [0.9e-3, 1.1e12, 0, -1, True, "5"]),
    (made_with(TimePart, "part"), ["weekday", "hour"], ["month", 3, None]),
    (made_with(LastTimePart, "part"), ["weekday", "hour"], ["month", 3]),
    (made_with(Number, "center"), [0, -3.5, 9e299], [float("nan"), 1e300, "0", True]),
    (made_with(Number, "scale"), [1, -2, 1e-9], [0, 0.0, float("inf"), True]),
    (lambda bounds: Number("x", *bounds), [(0, 1), (-1.5, 0)], [(1, 1), (2, 1), (None, 1), (0, None), (0, "1"), (0, True)]),
    (made_with(Number, "bins"), [(), [1], (1, 2.5, 3)], [(1, 1), (2, 1), (1, float("nan")), 5, "12"]),
    (made_with(Follows, "linear"), [True], [False]),
    (made_with(Feedback, "weight"), [100, -100, 0.5], [100.5, -100.5, float("inf"), "1"]),
    (Feedback, ["v", "v" * 64], ["", "v" * 65, 3]),
]


@pytest.mark.parametrize(("make", "good", "bad"), OPTIONS)
def test_an_option_goes_so_far_and_no_farther(make: Callable[[Any], object], good: list[Any], bad: list[Any]) -> None:
    for value in good:
        make(value)
    for value in bad:
        with pytest.raises(InvalidSchema):
            make(value)


@pytest.mark.parametrize(
    "ways",
    [
        {"low": 0, "high": 1, "center": 1},
        {"low": 0, "high": 1, "scale": 2},
        {"low": 0, "high": 1, "bins": (1, 2)},
        {"center": 1, "bins": (1, 2)},
        {"scale": 2, "bins": (1, 2)},
    ],
)
def test_a_number_is_scaled_in_one_way(ways: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchema, match="one of low/high, center/scale and bins"):
        Number("x", **ways)


TOO_LONG = "t" * 1025
VALUES: list[tuple[Any, list[Any], list[Any]]] = [
    (Category("x"), [2**63 - 1, -(2**63) + 1, "", False], [2**63, -(2**63), 1.0, None]),
    (Number("x"), [1e9, -1e9, 5], [1.1e9, -1.1e9, float("-inf"), True]),
    (Number("x", scale=0.1), [1e8], [1.1e8]),
    (Number("x", bins=(1, 2)), [9e299, -9e299], [1e300, -1e300]),
    (Title(), ["", TOO_LONG[1:]], [TOO_LONG, 3, None]),
    (Image(), ["", TOO_LONG[1:]], [TOO_LONG, 3, None]),
]


@pytest.mark.parametrize(("field", "good", "bad"), VALUES)
def test_a_value_goes_so_far_and_no_farther(field: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        field.features("item 'b7'", value)
    for value in bad:
        with pytest.raises(InvalidInput, match="item 'b7': "):
            field.features("item 'b7'", value)


@pytest.mark.parametrize(
    ("raw", "low", "high", "weighs"),
    [(-5, -1, 3, 0.0), (-1, -1, 3, 0.0), (0, -1, 3, 0.25), (3, -1, 3, 1.0), (9, -1, 3, 1.0)],
)
def test_bounds_map_to_nought_and_one(raw: float, low: float, high: float, weighs: float) -> None:
    assert Number("x", low=low, high=high).features("item 'b7'", raw) == ([("", weighs)] if weighs else [])


PLAIN: list[tuple[Field, dict[str, Any]]] = [
    (Id(), {"name": "id", "linear": False, "most": None, "admit_after": 1, "expire": None}),
    (Category("x"), {"linear": False, "most": None, "admit_after": 1, "expire": None}),
    (Categories("x"), {"linear": False, "normalize": False}),
    (Number("x"), {"linear": False, "low": None, "high": None, "center": 0.0, "scale": 1.0, "bins": ()}),
    (Title(), {"name": "title", "linear": False}),
    (Image(), {"name": "image", "linear": False}),
    (TimePart("x"), {"linear": False, "part": "weekday"}),
    (LastTimePart("x"), {"linear": False, "part": "weekday"}),
    (LastItem(), {"name": "last_item", "linear": False}),
    (LastItems(), {"name": "last_items", "linear": False, "length": 10}),
    (LastAttribute("x", of="genre"), {"linear": False, "of": "genre"}),
    (Trend("x"), {"linear": True, "half_life": 1000.0}),
    (Follows(), {"name": "follows", "linear": True}),
    (Together(), {"name": "together", "linear": True, "length": 10}),
    (Again(), {"name": "again", "linear": True}),
]


@pytest.mark.parametrize(("field", "options"), PLAIN, ids=[own.kind for own, _ in PLAIN])
def test_what_is_left_out_of_a_schema_is_what_it_always_was(field: Field, options: dict[str, Any]) -> None:
    """Schemas that people have do not write it."""
    assert {name: getattr(field, name) for name in options} == options
    written = {"kind": field.kind} | ({"of": "genre"} if isinstance(field, LastAttribute) else {})
    assert field.document() == written


@pytest.mark.parametrize(
    ("weight", "had", "trends", "history"),
    [
        (1, True, True, True),
        (0.99, False, True, True),
        (0.5, False, True, True),
        (0.49, False, False, True),
        (0, False, False, False),
        (-0.01, True, False, False),
    ],
)
def test_what_a_kind_of_event_counts_for_follows_from_its_weight(
    weight: float, had: bool, trends: bool, history: bool
) -> None:
    own = Feedback("x", weight)
    assert (own.had, own.trends, own.history) == (had, trends, history)
    assert own.is_target == (had and weight > 0)
