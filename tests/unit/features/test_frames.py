"""Data frames of pandas, polars and Arrow lead to what events and pairs lead to, bit for bit."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from coldstream import Availability, Categories, Category, Event, Id, InvalidInput, Number, Recommender, Schema
from coldstream.features.frames import is_frame

SCHEMA = Schema(
    user=[Id(), Number("age", low=0, high=100)],
    item=[Id(), Categories("genre"), Category("brand"), Number("price", center=10, scale=5)],
    context=[Category("device"), Number("load", low=0, high=1)],
)
START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 40
EVENTS: dict[str, list[Any]] = {
    "user": [f"u{n % 5}" for n in range(ROWS)],
    "item": [f"i{n * 7 % 11}" for n in range(ROWS)],
    "time": [START + timedelta(minutes=n) for n in range(ROWS)],
    "device": ["phone" if n % 3 else None for n in range(ROWS)],
    "load": [n / ROWS for n in range(ROWS)],
    "rating": [n % 5 for n in range(ROWS)],
}
ITEMS: dict[str, list[Any]] = {
    "item": [f"i{n}" for n in range(11)],
    "genre": [["a", "b"] if n % 2 else ["c"] for n in range(11)],
    "brand": ["x" if n % 3 else None for n in range(11)],
    "price": [float(n) if n else float("nan") for n in range(11)],
    "hidden": [n == 4 for n in range(11)],
}
MAKERS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas of Arrow": lambda data: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "Arrow": pa.table,
    "Arrow, one batch": lambda data: pa.table(data).to_batches()[0],
    "narwhals": lambda data: nw.from_native(pl.DataFrame(data)),
}


def expected() -> Recommender:
    recommender = Recommender(SCHEMA, seed=3, factors=4)
    recommender.put_users([("u0", {"age": 30.0}), ("u1", {})])
    rows = [dict(zip(ITEMS, row, strict=True)) for row in zip(*ITEMS.values(), strict=True)]
    recommender.put_items(
        (
            row["item"],
            {name: row[name] for name in ("genre", "brand", "price") if row[name] is not None and row[name] == row[name]},
            Availability(hidden=row["hidden"]),
        )
        for row in rows
    )
    recommender.learn(list(events()))
    return recommender


def events() -> Any:
    for user, item, time, device, load, _ in zip(*EVENTS.values(), strict=True):
        yield Event(user, item, time, ({"device": device} if device else {}) | {"load": load})


def bits(recommender: Recommender) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in recommender.state()[1].items()}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_frames_of_any_kind_lead_to_the_same_bits(make: Callable[[dict[str, list[Any]]], Any]) -> None:
    recommender = Recommender(SCHEMA, seed=3, factors=4)
    recommender.put_users(make({"user": ["u0", "u1"], "age": [30.0, None]}))
    recommender.put_items(make(ITEMS))
    recommender.learn(make(EVENTS))
    assert bits(recommender) == bits(expected())


def test_training_on_a_frame_is_training_on_its_events() -> None:
    one, other = Recommender(SCHEMA, seed=3, factors=4), Recommender(SCHEMA, seed=3, factors=4)
    one.train(pl.DataFrame(EVENTS), epochs=2)
    other.train(events(), epochs=2)
    assert bits(one) == bits(other)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_answers_are_a_frame_of_the_same_kind(make: Callable[[dict[str, list[Any]]], Any]) -> None:
    recommender = expected()
    asked = make({"user": ["u1", "stranger", None], "device": ["phone", None, "tv"], "time": [START] * 3})
    answer = recommender.recommend_many(asked, 3, deny=(one for one in ["i5"]))
    kinds = {"Arrow, one batch": pa.Table, "polars, lazy": pl.DataFrame, "narwhals": pl.DataFrame}
    name = next(name for name, maker in MAKERS.items() if maker is make)
    assert isinstance(answer, kinds.get(name, type(asked)))
    columns = nw.from_native(answer, eager_only=True).to_dict(as_series=False)
    wanted = [
        recommender.recommend(user, 3, context={"device": device} if device else {}, time=START, deny=["i5"])
        for user, device in (("u1", "phone"), ("stranger", None), (None, "tv"))
    ]
    assert columns["item"] == [one.item for best in wanted for one in best]
    assert columns["score"] == [one.score for best in wanted for one in best]
    assert columns["request"] == [n for n, best in enumerate(wanted) for _ in best]
    assert columns["rank"] == [rank for best in wanted for rank, _ in enumerate(best, 1)]
    users = [None if one is None or one != one else one for one in columns["user"]]
    assert users == [user for user, best in zip(["u1", "stranger", None], wanted, strict=True) for _ in best]


def test_a_list_of_users_gives_a_list_of_lists_also_of_many() -> None:
    recommender = expected()
    users = [f"u{n % 7}" for n in range(150)]
    assert recommender.recommend_many(users, 2) == [recommender.recommend(user, 2) for user in users]
    assert recommender.recommend_many([]) == []
    with pytest.raises(InvalidInput, match="requests must be a list of users or a data frame, got 'u1'"):
        recommender.recommend_many("u1")


def test_columns_of_other_names_and_ids_in_digits() -> None:
    frame = pd.DataFrame({"customer": [1, 2], "sku": np.array([7, 8]), "at": [1.7e9, 1.7e9], "channel": ["web", "shop"]})
    one, other = Recommender(SCHEMA, seed=1, factors=4), Recommender(SCHEMA, seed=1, factors=4)
    one.learn(frame, columns={"user": "customer", "item": "sku", "time": "at", "channel": "channel"})
    other.learn([Event("1", "7", 1.7e9, {"channel": "web"}), Event("2", "8", 1.7e9, {"channel": "shop"})])
    assert bits(one) == bits(other)


def test_an_empty_frame_teaches_nothing() -> None:
    recommender = expected()
    before = bits(recommender)
    recommender.learn(pl.DataFrame({"user": [], "item": []}, schema={"user": pl.String, "item": pl.String}))
    assert bits(recommender) == before
    assert len(recommender.recommend_many(pl.DataFrame({"user": []}, schema={"user": pl.String}))) == 0


@pytest.mark.parametrize(
    ("frame", "columns", "said"),
    [
        ({"customer": ["a"], "item": ["b"]}, None, r"no column 'user', it has customer, item; .* columns=\{'user': …\}"),
        ({"user": ["a"], "item": ["b"]}, {"user": "who"}, "'user' is to be column 'who', but it has user, item"),
        ({"user": ["a", None], "item": ["b", "c"]}, None, "column 'user', row 1: got None for an id; cast the column"),
        ({"user": [1.0], "item": ["b"]}, None, "column 'user', row 0: got 1.0 for an id"),
        ({"user": ["a"], "item": ["b"], "time": [datetime(2026, 1, 1)]}, None, "column 'time': times must carry their"),  # noqa: DTZ001
        ({"user": ["a"], "item": ["b"], "time": ["noon"]}, None, "column 'time': a time must be a number or a datetime"),
        ({"user": ["a"], "item": ["b"], "time": [1.7e12]}, None, "if it counts milliseconds, divide it by 1000"),
        ({"user": ["a"], "item": ["b"], "load": ["x"]}, None, "load must be a finite number, got 'x'"),
        ({"user": ["a"], "item": ["b"]}, ["user"], "columns must be a mapping"),
    ],
)
def test_what_is_refused_has_changed_nothing(frame: dict, columns: Any, said: str) -> None:
    recommender = expected()
    before = bits(recommender)
    with pytest.raises(InvalidInput, match=said):
        recommender.learn(pl.DataFrame(frame), columns=columns)
    assert bits(recommender) == before


def test_what_is_no_frame_is_not_taken_for_one() -> None:
    for other in ([], {}, "x", pd.Series([1]), pa.array([1]), np.zeros((2, 2)), Event("u", "i")):
        assert not is_frame(other)


@pytest.mark.parametrize("twice", ["user", "genre"])
@pytest.mark.parametrize("maker", ["pandas", "Arrow", "Arrow, one batch"])
def test_two_columns_of_one_name_are_refused(maker: str, twice: str) -> None:
    names = ["user", "item", "genre", twice]
    table = pa.Table.from_arrays([pa.array(["a"])] * 4, names)
    frame = {
        "pandas": pd.DataFrame([["a"] * 4], columns=names),
        "Arrow": table,
        "Arrow, one batch": table.to_batches()[0],
    }[maker]
    recommender = Recommender(SCHEMA)
    for call in (recommender.learn, recommender.put_items, recommender.put_users, recommender.recommend_many):
        with pytest.raises(InvalidInput, match=f"frame: column '{twice}' is there 2 times; rename or remove all but one"):
            call(frame)
    assert recommender.size == Recommender(SCHEMA).size
