"""A schema is inferred from what values look like, and never from what comes later."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import Categories, Category, Event, Id, LastItem, Number, Recommender, Schema, TimePart, Trend
from coldstream.evaluation.inference import inferred_schema, list_columns, only_declared
from coldstream.events import datasets
from coldstream.events.stream import Stream

DAY, HOUR = 86400.0, 3600.0


def stream(
    events: list[Event] | None = None, users: dict | None = None, items: dict | None = None, **options: bool
) -> Stream:
    return Stream("s", events or [Event("u", "i")], users or {}, items or {}, **options)


def item_field(values: list[object]) -> object:
    """The one item field that a column of values asks for, or the note about it."""
    schema, notes = inferred_schema(stream(items={str(n): {"x": value} for n, value in enumerate(values)}))
    return schema.item[1] if len(schema.item) > 1 else notes[0]


def context_field(values: list[object]) -> object:
    schema, notes = inferred_schema(stream([Event("u", "i", None, {"x": value}) for value in values]))
    return schema.context[0] if schema.context else notes[0]


def test_without_attributes_there_are_ids_and_nothing_else() -> None:
    assert inferred_schema(stream()) == (Schema(user=[Id()], item=[Id()]), [])


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (["a", "b", "a"], Category("x")),
        ([True, False], Category("x")),
        (["a", 1, True], Category("x")),
        ([["a"], ["b", "c"], []], Categories("x", normalize=True)),
        ([("a",), {"b"}], Categories("x", normalize=True)),
        (list(range(20)) * 5, Category("x")),
        ([np.int64(3), np.int64(4)], Category("x")),
    ],
)
def test_the_kind_follows_the_values(values: list[object], field: object) -> None:
    assert item_field(values) == field


def test_many_whole_numbers_are_a_quantity() -> None:
    field = item_field(list(range(101)))
    assert field == Number("x", bins=(10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0))
    assert isinstance(item_field(list(range(21)) * 19), Number)


def test_whole_numbers_that_come_often_each_are_codes() -> None:
    assert item_field(list(range(21)) * 20) == Category("x")
    assert item_field(list(range(100)) * 20) == Category("x")


def test_fractions_are_a_quantity_even_when_they_are_few() -> None:
    assert item_field([1, 3.5] * 50) == Number("x", bins=(1.0, 2.25, 3.5))
    assert item_field([2.5, 2.5]) == Number("x", bins=(2.5,))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_no_bin_between_deciles_holds_much_more_than_a_tenth(values: list[float]) -> None:
    field = item_field([*values, 0.25])
    edges = np.array(field.bins)
    inside = [value for value in [*values, 0.25] if value not in edges]
    counts = np.bincount(np.searchsorted(edges, inside, side="right"), minlength=1) if inside else np.zeros(1)
    assert counts.max() <= (len(values) + 1) / 10 + 1


def test_texts_that_hardly_ever_repeat_are_left_out_with_a_note() -> None:
    titles = [f"title {n}" for n in range(51)]
    assert item_field(titles + titles[:50]) == (
        "item field 'x' was left out: 51 different texts in 101 rows say nothing of what rows have in common"
    )
    assert item_field(titles + titles) == Category("x")  # half of the rows, not more
    assert item_field(titles[:50]) == Category("x")  # few enough to be a category


def test_values_of_different_kinds_are_left_out_with_a_note() -> None:
    assert item_field(["a", 0.5]) == "item field 'x' was left out: its values are of different kinds: float, str"
    assert "different kinds: list, str" in str(item_field(["a", ["a"]]))
    assert "different kinds: bool, float" in str(item_field([True, 0.5]))


def test_the_scale_of_a_context_comes_from_the_first_events_only() -> None:
    early = [n / 10 for n in range(30)]
    field = context_field([*early, *[1e6] * 70])
    assert (
        field == context_field([*early, *[-5.5] * 70]) == Number("x", bins=tuple(np.quantile(early, np.arange(1, 10) / 10)))
    )


def test_few_or_many_and_unique_or_not_are_decided_by_the_first_events_only() -> None:
    assert context_field([1, 2] * 15 + list(range(70))) == Category("x")
    assert context_field(["a", "b"] * 100 + [f"title {n}" for n in range(400)]) == Category("x")


def test_the_types_of_a_context_are_those_of_all_events() -> None:
    assert isinstance(context_field([1, 2] * 15 + [0.5] * 70), Number)


def test_a_number_that_comes_later_has_no_scale() -> None:
    events = [Event("u", "i", None, {"x": 1.5} if n >= 30 else {}) for n in range(100)]
    schema, notes = inferred_schema(stream(events))
    assert schema.context == ()
    assert notes == ["context field 'x' was left out: it is a number, and no event of the first 30 % shows its scale"]


def test_a_time_gives_weekday_and_hour() -> None:
    schema, notes = inferred_schema(stream([Event("u", "i", 1.4e9 + n * HOUR) for n in range(10)]))
    assert schema.context == (TimePart("weekday", part="weekday"), TimePart("hour", part="hour"))
    assert not notes


def test_whole_days_have_no_hour() -> None:
    schema, notes = inferred_schema(stream([Event("u", "i", n * DAY) for n in range(10)]))
    assert schema.context == (TimePart("weekday", part="weekday"),)
    assert notes == ["the hour was left out: the times are whole days"]


def test_columns_keep_their_names_where_ours_are_taken() -> None:
    events = [Event("u", "i", 1.4e9 + n, {"weekday": "mo"}) for n in range(10)]
    schema, _ = inferred_schema(stream(events, {"u": {"id": "x"}}, {"i": {"id": "y", "id_": "z"}}))
    assert schema.user == (Id("id_"), Category("id"))
    assert schema.item == (Id("id__"), Category("id"), Category("id_"))
    assert [field.name for field in schema.context] == ["weekday", "weekday_", "hour"]


@pytest.mark.parametrize("repeats", [True, False])
def test_what_was_had_is_excluded_unless_it_repeats(repeats: bool) -> None:
    assert inferred_schema(stream(repeats=repeats)).schema.exclude_seen is not repeats


def test_undeclared_fields_are_dropped_on_every_side() -> None:
    schema = Schema(
        user=[Id(), Category("sex")], item=[Id("price"), Trend("hot")], context=[Number("age"), LastItem("place")]
    )
    known = {"sex": "f", "age": 3, "price": 2, "hot": 1, "place": "here"}
    given = stream([Event("u", "i", 5.0, known), Event("u", "j", 6.0)], {"u": known}, {"i": known}, repeats=True)
    assert only_declared(given, schema) == Stream(
        "s", [Event("u", "i", 5.0, {"age": 3}), Event("u", "j", 6.0)], {"u": {"sex": "f"}}, {"i": {}}, repeats=True
    )
    assert given.users["u"] == known


def test_lists_are_the_fields_of_kind_set() -> None:
    schema = Schema(
        user=[Id(), Categories("likes")], item=[Id(), Categories("genre"), Category("kind")], context=[Categories("tags")]
    )
    assert list_columns(schema) == {"likes", "genre", "tags"}


values = st.one_of(
    st.lists(st.text("ab", max_size=2) | st.integers(0, 3), max_size=3),
    st.text("abc", max_size=3),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(-1e300, 1e300, exclude_min=True, exclude_max=True),
)
records = st.dictionaries(st.sampled_from(["id", "hour", "x", "y"]), values, max_size=4)


@given(
    st.lists(st.tuples(st.sampled_from("uv"), st.sampled_from("ij"), records), min_size=1, max_size=12),
    st.fixed_dictionaries({"u": records, "v": records}),
    st.fixed_dictionaries({"i": records, "j": records}),
)
def test_what_is_declared_is_accepted_by_the_recommender(events: list, users: dict, items: dict) -> None:
    given = stream([Event(user, item, float(n), context) for n, (user, item, context) in enumerate(events)], users, items)
    schema = inferred_schema(given).schema
    clean = only_declared(given, schema)
    recommender = Recommender(schema, factors=2, negatives=1)
    for item in clean.items:
        recommender.put_item(item, clean.items[item])
    for user in clean.users:
        recommender.put_user(user, clean.users[user])
    for event in clean.events:
        recommender.learn(event)


def test_clicks_get_a_schema_that_fits() -> None:
    schema, notes = inferred_schema(datasets.load("clicks"))
    assert [(field.name, field.kind) for field in schema.context] == [
        ("age", "number"),
        ("sex", "category"),
        ("state", "category"),
        ("weekday", "time"),
        ("hour", "time"),
    ]
    assert schema.item == (Id(), Category("category"))
    assert not schema.exclude_seen
    assert not notes


def test_what_is_known_only_after_a_choice_is_no_context() -> None:
    events = [Event("u", f"i{n % 7}", None, {"rating": n % 5, "device": "tv"}) for n in range(40)]
    schema, notes = inferred_schema(Stream("s", events, {}, {}))
    assert [field.name for field in schema.context] == ["device"]
    assert notes == ["context field 'rating' was left out: it looks like an outcome; if it is not, declare it in a schema"]
