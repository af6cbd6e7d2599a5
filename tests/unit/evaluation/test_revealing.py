"""A column that gives away what was chosen is pointed out, and one that may be known before is not."""

import numpy as np
import pytest

from coldstream.evaluation.fields_in_use import FieldInUse, fields_in_use
from coldstream.evaluation.methods import schemas_in_use
from coldstream.evaluation.revealing import revealing_columns
from coldstream.evaluation.workload import Known, loaded
from coldstream.events.event import Event
from coldstream.events.stream import Stream
from coldstream.features.fields import Categories, Category, Id, Number, TimePart
from coldstream.features.schema import Schema

ITEMS, EVENTS = 40, 4000


def stream(**columns: object) -> Stream:
    """Choices at random, each with columns of what a function makes of the item and a generator."""
    rng = np.random.default_rng(5)
    events = []
    for n in range(EVENTS):
        item = int(rng.integers(ITEMS))
        context = {name: value for name, make in columns.items() if (value := make(item, rng)) is not None}
        events.append(Event(f"u{rng.integers(200)}", f"i{item}", 1.7e9 + n, context))
    return Stream("made-up", events, {}, {}, repeats=True)


PRICES = np.round(np.exp(np.random.default_rng(1).normal(3, 1, ITEMS)), 2)


@pytest.mark.parametrize(
    ("make", "of_items"),
    [
        (lambda item, rng: float(PRICES[item]), True),
        (lambda item, rng: round(float(PRICES[item]) * int(rng.integers(1, 4)), 2), True),  # revenue
        (lambda item, rng: float(PRICES[item]) * (1 + 1e-4 * rng.normal()), True),  # never twice the same
        (lambda item, rng: f"page of i{item}", True),
        (lambda item, rng: [f"tag{item}", "x"], True),
        (lambda item, rng: f"i{item}" if rng.random() < 0.8 else "other", True),
        (lambda item, rng: f"i{item}" if rng.random() < 0.1 else None, True),  # seldom, and then always
        (lambda item, rng: [4.99, 9.99, 19.99][item % 3], False),  # a price of many items
    ],
)
def test_what_gives_it_away_is_found(make: object, of_items: bool) -> None:
    (found,) = revealing_columns(stream(column=make))
    assert (found.column, found.of_items) == ("column", of_items)
    assert found.share > 0.6
    assert found.chance < 0.5
    assert "context column 'column'" in found.warning
    assert "leave it out with --ignore column" in found.warning


@pytest.mark.parametrize(
    "make",
    [
        lambda item, rng: int(rng.integers(1, 4)),  # a quantity
        lambda item, rng: float(rng.normal()),
        lambda item, rng: "phone" if rng.random() < 0.5 else "desk",
        lambda item, rng: f"order {rng.integers(10**9)}",
        lambda item, rng: 1 if rng.random() < 0.97 else 2,
        lambda item, rng: "ad" if item % 4 == 0 or rng.random() < 0.3 else "search",  # helps, and gives nothing away
        lambda item, rng: f"i{item}" if rng.random() < 0.02 else None,  # too seldom to tell
    ],
)
def test_what_may_be_known_before_is_left_alone(make: object) -> None:
    assert revealing_columns(stream(column=make)) == []


def test_a_habit_of_the_user_is_no_leak() -> None:
    events = [Event(f"u{n % 30}", f"i{n % 30 % 7}", float(n), {"session": f"s{n % 30}"}) for n in range(1000)]
    assert revealing_columns(Stream("habits", events, {}, {}, repeats=True)) == []


def test_only_what_is_before_the_test_is_looked_at() -> None:
    honest = stream(column=lambda item, rng: "x")
    told = [
        Event(e.user, e.item, e.time, {"column": e.item} if n > 0.3 * EVENTS else e.context)
        for n, e in enumerate(honest.events)
    ]
    assert revealing_columns(Stream("late", told, {}, {}, repeats=True)) == []


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_clicks_give_no_alarm(seed: int) -> None:
    assert revealing_columns(loaded(Known("clicks", seed)).stream) == []


@pytest.mark.parametrize("name", ["ml-100k", "movietweetings"])
def test_known_data_sets_give_no_alarm(name: str) -> None:
    from coldstream.errors import Unavailable

    try:
        workload = loaded(Known(name))
    except Unavailable as error:
        pytest.skip(str(error))
    assert revealing_columns(workload.stream) == []


def test_every_field_in_use_is_listed_with_where_it_comes_from() -> None:
    schema = Schema(
        user=[Id(), Number("age")],
        item=[Id(), Categories("genre")],
        context=[Category("page"), Category("device"), TimePart("weekday")],
    )
    suspicious = revealing_columns(stream(page=lambda item, rng: f"i{item}", device=lambda item, rng: "phone"))
    assert fields_in_use([schema, schema], suspicious) == (
        FieldInUse("id", "user", "id", "the user's id"),
        FieldInUse("age", "user", "number", "column 'age' of the users"),
        FieldInUse("id", "item", "id", "the item's id"),
        FieldInUse("genre", "item", "set", "column 'genre' of the items"),
        FieldInUse("page", "context", "category", "column 'page' of the events", suspicious[0].why),
        FieldInUse("device", "context", "category", "column 'device' of the events"),
        FieldInUse("weekday", "context", "time", "weekday of the event's time"),
    )


def test_what_a_preset_adds_is_listed_too_and_baselines_bring_nothing() -> None:
    workload = loaded(Known("clicks"))
    assert schemas_in_use(["popularity", "ease"], workload) == []
    names = {(one.side, one.name) for one in fields_in_use(schemas_in_use(["coldstream", "ifm"], workload))}
    assert names > {
        ("context", "age"),
        ("context", "sex"),
        ("context", "state"),
        ("item", "category"),
        ("context", "last_item"),
    }
