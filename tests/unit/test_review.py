"""What a fresh pair of eyes found once: each stays found."""

import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coldstream import (
    Bounds,
    Categories,
    Category,
    Diverged,
    Event,
    FactorizationMachine,
    Id,
    InvalidInput,
    InvalidSchema,
    InvalidSnapshot,
    LastAttribute,
    Number,
    Recommender,
    Schema,
    TimePart,
    Trend,
)
from coldstream.features.fields import hour
from coldstream.snapshots.archive import read_snapshot, write_snapshot
from conftest import bits


def test_a_new_field_without_a_value_is_admitted_for_good(tmp_path: Path) -> None:
    recommender = Recommender(Schema(context=[Number("n")]), "paper", learning_rate=1.0, regularization="per-field")
    recommender.learn(Event("u", "i"))
    recommender.learn(Event("u", "i", context={"tags": []}))
    recommender.save(tmp_path / "s")
    assert bits(Recommender.load(tmp_path / "s")) == bits(recommender)
    huge = [Event("u", "i", context={"n": 1e9})] * 9
    with pytest.raises(Diverged):
        [recommender.learn(event) for event in huge]
    recommender.recommend("u", context={"tags": ["x"]})
    recommender.learn(Event("u", "i", context={"tags": ["x"]}))


def test_an_emptied_catalogue_recommends_nothing(tmp_path: Path) -> None:
    recommender = Recommender(Schema(item=[Id(), Category("c")]), "paper", factors=3)
    for n in range(300):
        recommender.put_item(f"i{n}", {"c": n})
    for n in range(300):
        recommender.remove_item(f"i{n}")
    assert recommender.recommend("u") == []
    recommender.save(tmp_path / "s")
    loaded = Recommender.load(tmp_path / "s")
    assert loaded.recommend("u") == []
    for both in (recommender, loaded):
        both.learn(Event("u", "i7"))
        both.put_item("i8", {"c": 3})
    assert bits(loaded) == bits(recommender)


@pytest.mark.parametrize("item", ["new", "removed"])
def test_a_refused_event_leaves_no_trace_in_the_catalogue(item: str, unchanged: Callable[..., str]) -> None:
    schema = Schema(item=[Id(), Categories("genre")], context=[Number("n")])
    recommender = Recommender(schema, "paper", learning_rate=1.0, regularization="fixed")
    recommender.put_item("removed", {"genre": ["y"]})
    recommender.put_item("a", {"genre": ["x"]})
    recommender.remove_item("removed")
    unchanged(recommender, Diverged, lambda: recommender.learn(Event("u", item, context={"n": 1e9, "tags": ["z"]})))


@pytest.mark.parametrize("pairs", ["across", "j>i", "j>=i"])
@pytest.mark.parametrize("magnitude", [2e3, 1e5, 1e8])
def test_numbers_that_nobody_scaled_are_scored_exactly(magnitude: float, pairs: str) -> None:
    schema = Schema(user=[Id(), Number("age")], item=[Id(), Number("price"), Number("year")])
    recommender = Recommender(schema, seed=1, history=0, pairs=pairs)
    recommender.put_user("u", {"age": magnitude / 3})
    for n in range(40):
        recommender.put_item(f"i{n}", {"price": magnitude + n, "year": 2000 + n})
    for item, score in recommender.recommend("u", 40):
        explanation = recommender.explain("u", item)
        scale = 3e-6 * max(abs(term.value) for term in explanation.terms)
        assert score == explanation.score == recommender.predict("u", item)
        assert score == pytest.approx(math.fsum(term.value for term in explanation.terms), abs=scale)


def test_history_declared_in_mid_stream_knows_the_items_that_were_there() -> None:
    recommender = Recommender(Schema(item=[Id(), Categories("genre")]), history=0)
    recommender.put_item("a", {"genre": ["x"]})
    recommender.put_item("b", {"genre": ["y"]})
    recommender.add_context(LastAttribute("last_genre", of="genre"))
    for item in "aba":
        recommender.learn(Event("u", item))
    names = {name for term in recommender.explain("u", "b").terms for name in term.features}
    assert "context.last_genre=x" in names


def test_columns_follow_the_live_items_under_churn() -> None:
    recommender = Recommender(Schema(item=[Id(), Category("season")]), "paper", factors=2)
    for season in range(20):
        ids = [f"s{season}i{n}" for n in range(200)]
        for item in ids:
            recommender.put_item(item, {"season": season})
        for item in ids[1:]:
            recommender.remove_item(item)
    assert len(recommender.items()) == 20
    assert (
        recommender.engine.shared.machine.parameters.columns < 20 + 20 + 200 + 20
    )  # items, seasons, those of one season; some


def test_many_feature_names_are_no_burden() -> None:
    machine = FactorizationMachine(factors=2)
    for n in range(33_000):
        machine.vocabulary.admit(machine.vocabulary.admit_field(f"word {n}"), "")
    machine.start(0)
    machine.vocabulary.commit()
    machine.learn_one({"zz": 1.0, "word 7": 2.0}, 1.0)
    assert machine.vocabulary.field("zz") == 33_000


def test_an_empty_category_is_not_a_number() -> None:
    machine = FactorizationMachine(factors=2, intercept=False)
    for _ in range(20):
        machine.learn_one({"a": ""}, 5.0)
    assert machine.predict_one({"a": 2.0}) == 0.0


def test_a_machine_survives(tmp_path: Path) -> None:
    machine = FactorizationMachine(loss="logistic", factors=3, seed=4)
    machine.learn_one({"a": "x", "b": 2.0}, 1)
    machine.save(tmp_path / "m")
    loaded = FactorizationMachine.load(tmp_path / "m")
    for both in (machine, loaded):
        both.learn_one({"a": "y", "b": 1.0}, 0)
    assert loaded.predict_one({"a": "x"}) == machine.predict_one({"a": "x"})


def test_a_snapshot_of_the_other_kind_is_named_with_what_loads_it(tmp_path: Path) -> None:
    FactorizationMachine(factors=3).save(tmp_path / "machine")
    Recommender(Schema(), factors=3).save(tmp_path / "recommender")
    with pytest.raises(
        InvalidSnapshot, match=r"machine' holds a FactorizationMachine; load it with FactorizationMachine.load$"
    ):
        Recommender.load(tmp_path / "machine")
    with pytest.raises(InvalidSnapshot, match=r"recommender' holds a Recommender; load it with Recommender.load$"):
        FactorizationMachine.load(tmp_path / "recommender")


def test_nobody_can_change_what_is_shown() -> None:
    recommender = Recommender(Schema(item=[Id(), Categories("g")]))
    recommender.put_item("a", {"g": ["x"]})
    with pytest.raises(AttributeError):
        recommender.recommend(None, where=lambda item: item["g"].append("y") or True)
    assert recommender.item("a") == {"g": ["x"]}


@pytest.mark.parametrize("seen", [1, 3000])
def test_who_had_much_still_learns(seen: int) -> None:
    recommender = Recommender(Schema(), factors=2, negatives=3, bounds=Bounds(seen=None))
    for n in range(seen):
        recommender.put_item(f"i{n}")
    recommender.train([Event("u", f"i{n}") for n in range(seen)], epochs=1)
    recommender.put_item("last")
    recommender.learn(Event("u", "last"))
    assert recommender.recommend("u") == []


def test_odd_arguments_get_our_errors(tmp_path: Path) -> None:
    recommender = Recommender(Schema(item=[Id(), Category("c"), Number("n")]))
    recommender.put_item("i")

    class Nowhere(__import__("datetime").tzinfo):
        def utcoffset(self, moment: object) -> None:
            return None

    moment = __import__("datetime").datetime(2026, 1, 1, tzinfo=Nowhere())
    refused: list[Callable[[], object]] = [
        lambda: recommender.predict("u", ["i"]),
        lambda: recommender.remove_item(["i"]),
        lambda: recommender.forget_user({}),
        lambda: recommender.put_item("z", {"c": 10**5000}),
        lambda: recommender.put_item("z", {"n": 10**5000}),
        lambda: recommender.train(5),
        lambda: recommender.save(tmp_path / "nowhere" / "x"),
        lambda: recommender.recommend("u", exclude_seen="no"),
        lambda: recommender.recommend("u", time=moment),
        lambda: Event("u", "i", 1e300),
    ]
    for action in refused:
        with pytest.raises(InvalidInput):
            action()
    for action in (
        lambda: TimePart("x", part=["hour"]),
        lambda: Schema.from_document(5),
        lambda: Schema.from_toml(None),
        lambda: Trend("h", half_life=1e-45),
    ):
        with pytest.raises(InvalidSchema):
            action()
    with pytest.raises(InvalidSnapshot):
        Recommender.load(None)


def test_numpy_numbers_are_numbers_everywhere() -> None:
    recommender = Recommender(Schema(), seed=np.int64(3), factors=np.int32(2), trends=[np.float64(50)])
    recommender.learn(Event("u", "i", np.int64(3)))
    assert len(recommender.recommend("v", np.int64(5), time=np.float32(3))) == 1
    FactorizationMachine().learn_one({"a": np.float32(1)}, np.int64(1))
    assert len({Event("u", "i"), Event("u", "i")}) == 1


def test_the_last_moment_of_a_day_is_in_its_last_hour() -> None:
    assert hour(-1e-12) == "23"


def test_damage_of_any_kind_is_refused(tmp_path: Path) -> None:
    recommender = Recommender(Schema(item=[Id(), Category("c")]), factors=2)
    for n in range(9):
        recommender.put_item(f"i{n}", {"c": n % 3})
        recommender.learn(Event("u", f"i{n}"))
    path = tmp_path / "s"
    recommender.save(path)
    whole = bytearray(path.read_bytes())
    entry = whole.find(b"PK\x01\x02")
    whole[entry + 8] |= 1  # the flag of an encrypted member
    path.write_bytes(whole)
    with pytest.raises(InvalidSnapshot):
        Recommender.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__header__.npy", b"x" * 1000)
    damaged = bytearray(path.read_bytes())
    damaged[60] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(InvalidSnapshot):
        Recommender.load(path)


@pytest.mark.parametrize("name", ["unchosen_total", "newcomers", "prior", "level", "counted_at", "choices", "registered_at"])
@pytest.mark.parametrize("change", [lambda own: own.astype(np.float16), lambda own: np.concatenate([own, own], axis=-1)])
def test_an_array_of_another_type_or_shape_is_refused(name: str, change: Callable, tmp_path: Path) -> None:
    recommender = Recommender(Schema(item=[Id()]), factors=2)
    for n in range(9):
        recommender.learn(Event(f"u{n % 2}", f"i{n}"))
    recommender.save(tmp_path / "s")
    document, arrays = read_snapshot(tmp_path / "s")
    arrays[f"catalogue.{name}"] = change(arrays[f"catalogue.{name}"])
    write_snapshot(tmp_path / "s", document, arrays)
    with pytest.raises(InvalidSnapshot):
        Recommender.load(tmp_path / "s")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("catalogue.id_column", 2**30),
        ("catalogue.id_column", -2),
        ("catalogue.id_column", -1),
        ("catalogue.combination", 99),
        ("catalogue.combination", -1),
        ("catalogue.slot", -1),
        ("catalogue.slot", 99),
        ("catalogue.slot", 8),
        ("catalogue.combination_column", 2**30),
        ("catalogue.combination_column", -1),
        ("catalogue.combination_length", 2**20),
        ("catalogue.combination_length", -1),
        ("catalogue.combination_value", np.inf),
        ("catalogue.number", np.nan),
        ("catalogue.number_column", 2**30),
        ("catalogue.number_column", -1),
        ("catalogue.level", np.nan),
        ("catalogue.counted_at", 2**40),
        ("catalogue.unchosen", 1),
        ("catalogue.choices", -1),
        ("catalogue.choices", 0),
        ("catalogue.prior", np.inf),
        ("catalogue.partner", 2**20),
        ("catalogue.partner", -1),
        ("catalogue.partners", 2**20),
        ("catalogue.together", -1),
        ("users.user_length", -1),
        ("users.user_length", 3),
        ("users.id_length", -1),
        ("vocabulary.field", 77),
        ("vocabulary.value_length", -2),
        ("model.field", 77),
        ("model.touched", 2**30),
        ("model.touches", 2**20),
        ("model.V", np.nan),
        ("model.GV", np.inf),
        ("model.lambda_w", np.nan),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_crafted_snapshot_cannot_reach_beyond_its_arrays(name: str, value: float, place: int, tmp_path: Path) -> None:
    recommender = Recommender(Schema(item=[Id(), Category("c"), Number("n"), Number("m")]), factors=2)
    for n in range(9):
        recommender.put_item(f"i{n}", {"c": n % 3, "n": 1.0 + n, "m": 2.0 - n})
        recommender.learn(Event(f"u{n % 2}", f"i{n}"))
    recommender.save(tmp_path / "s")
    document, arrays = read_snapshot(tmp_path / "s")
    own = arrays[name].reshape(-1)
    own[min(place, len(own) - 1)] = value
    write_snapshot(tmp_path / "s", document, arrays)
    with pytest.raises(InvalidSnapshot):
        Recommender.load(tmp_path / "s")
