"""Bad input gets one clear error that names the field, the value and the remedy, and nothing changes."""

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest

from coldstream import (
    Category,
    ColdstreamError,
    Diverged,
    Event,
    FactorizationMachine,
    Id,
    InvalidInput,
    Number,
    Recommender,
    Schema,
    UnknownId,
)
from filled import SCHEMA, filled

NAN, INF = float("nan"), float("inf")


def event(**context: object) -> Event:
    return Event("u1", "i1", 0.0, context)


CASES: list[tuple[Callable[[Recommender], object], list[str]]] = [
    # unknown field
    (lambda r: r.put_user("u1", {"agee": 3}), ["user 'u1'", "'agee'", "3", "age, job"]),
    (lambda r: r.put_item("b7", {"gender": "x"}), ["item 'b7'", "'gender'", "'x'", "genre, price"]),
    (lambda r: r.put_item("b7", {"id": "x"}), ["item 'b7'", "'id'"]),
    (lambda r: r.put_item("b7", {"hot": 3.0}), ["item 'b7'", "'hot'"]),
    (lambda r: r.recommend("u1", attributes={"x": 1}), ["user 'u1'", "'x'"]),
    (lambda r: r.recommend("u1", where={"x": 1}), ["'x'", "genre, price"]),
    (lambda r: r.recommend("u1", context={"last_item": "i1"}), ["context", "'last_item'"]),
    (lambda r: r.learn(event(hour=3)), ["context", "'hour'"]),
    # wrong type
    (lambda r: r.put_item("b7", {"genre": 3}), ["item 'b7': genre must be a list of strings, got 3"]),
    (lambda r: r.put_item("b7", {"genre": "Action"}), ["item 'b7': genre", "'Action'", "write ['Action']"]),
    (lambda r: r.put_item("b7", {"genre": [1.5]}), ["item 'b7': genre", "1.5"]),
    (lambda r: r.put_item("b7", {"genre": ["a"], "price": "9"}), ["item 'b7': price", "'9'"]),
    (lambda r: r.put_user("u1", {"age": True}), ["user 'u1': age", "True"]),
    (lambda r: r.put_user("u1", {"job": None}), ["user 'u1': job", "None"]),
    (lambda r: r.put_user("u1", [("age", 3)]), ["user 'u1'", "mapping", "[('age', 3)]"]),
    (lambda r: r.put_user("u1", {3: 4}), ["user 'u1'", "3"]),
    (lambda r: r.learn(event(device=["x"])), ["context: device", "['x']"]),
    (lambda r: r.learn(("u1", "i1")), ["event", "'u1'", "Event(user="]),  # a list of events, of which none is one
    (lambda r: r.learn(3), ["events", "3"]),
    (lambda r: r.learn({"user": "u1", "item": "i1"}), ["events must be a list", "'user': 'u1'", "Event(user="]),
    (lambda r: r.add_fields({"item": Category("brand2")}), ["fields of 'item' must be a list", "write [Category("]),
    (lambda r: r.add_fields([Category("brand2")]), ["fields must be lists of fields by side", 'write {"item": [']),
    (lambda r: r.learn([event(), "x"]), ["event", "'x'", "Event(user="]),
    (lambda r: r.learn([event(), event(weather="new"), event(device=1.5)]), ["context: device", "1.5"]),
    (lambda r: r.learn([event(weather="new"), event(weather=["a", "list"])]), ["context: weather", "['a', 'list']"]),
    (lambda r: r.learn(event(), position=60), ["position must be beyond the last one, 60", "got 60"]),
    (lambda r: r.learn(Event("new", "new"), position=2**63), ["position must be", "below 2**62", str(2**63)]),
    (lambda r: r.put_item("b7", np.array([1, 2])), ["item 'b7'", "mapping", "array([1, 2])"]),
    (lambda r: r.learn(event(), position=True), ["position", "True"]),
    (lambda r: r.learn(event(), position=61.0), ["position", "61.0"]),
    (lambda r: r.observe(event(), position=3), ["position", "got 3"]),
    (lambda r: r.train([event(), "x"]), ["event", "'x'"]),
    (lambda r: r.train([event(), event(device=1.5)]), ["context: device", "1.5"]),
    (lambda r: r.recommend("u1", context="tv"), ["context", "'tv'"]),
    (lambda r: r.recommend("u1", where=3), ["where", "3"]),
    (lambda r: r.recommend("u1", where={"price": 3}), ["where: price", "3", "function"]),
    (lambda r: r.recommend("u1", allow="i1"), ["allow", "'i1'", "['i1']"]),
    (lambda r: r.recommend("u1", deny=[3]), ["deny", "3"]),
    (lambda r: r.recommend(3), ["user id", "3", "str(id)"]),
    (lambda r: r.recommend("u1", time="now"), ["time", "'now'"]),
    (lambda r: r.recommend("u1", time=datetime(2026, 1, 1)), ["time", "time zone"]),  # noqa: DTZ001
    # undeclared numbers have no scale
    (lambda r: r.learn(event(distance=3.5)), ["context", "'distance'", "3.5", "declare"]),
    (lambda r: r.learn(event(weather="sunny", distance=3)), ["'distance'", "3"]),
    (lambda r: r.learn(event(tags=["a", 1.5])), ["context: tags", "1.5"]),
    (lambda r: r.learn(event(tags={"a": 1})), ["context", "'tags'"]),
    # NaN and infinity
    (lambda r: r.put_item("b7", {"price": NAN}), ["item 'b7': price", "nan"]),
    (lambda r: r.put_item("b7", {"price": INF}), ["item 'b7': price", "inf"]),
    (lambda r: r.put_user("u1", {"age": 10**400}), ["user 'u1': age"]),
    (lambda r: r.put_item("b7", {"price": 1e200}), ["item 'b7': price", "1e+200", "declare low and high"]),
    (lambda r: r.recommend("u1", time=NAN), ["time", "nan"]),
    (lambda r: Event("u", "i", INF), ["time", "inf"]),
    (lambda r: Event("u", "i", 1_700_000_000_000), ["time", "1700000000000", "milliseconds, divide it by 1000"]),
    (lambda r: Event("u", "i", 1.7e12), ["time", "1700000000000.0", "milliseconds, divide it by 1000"]),
    (lambda r: Event("u", "i", 10**400), ["time", "convert it to seconds since 1970"]),
    (lambda r: Event("u", "i", -3e9), ["time", "-3000000000.0", "from the years 1900 to 2200"]),
    (lambda r: Event("u", "i", datetime(2300, 1, 1, tzinfo=UTC)), ["time", "datetime.datetime(2300", "its year"]),
    (lambda r: r.recommend("u1", time=1.7e12), ["time", "milliseconds, divide it by 1000"]),
    # empty id
    (lambda r: r.put_user(""), ["user id", "empty"]),
    (lambda r: r.put_item(""), ["item id", "empty"]),
    (lambda r: r.put_item(7), ["item id", "7", "str(id)"]),
    (lambda r: r.put_item("\ud800"), ["item id", "Unicode"]),
    (lambda r: Event("", "i"), ["user id", "empty"]),
    (lambda r: Event("u", ""), ["item id", "empty"]),
    (lambda r: Event("u", "i", context=3), ["context", "3"]),
    # n < 1
    (lambda r: r.recommend("u1", 0), ["n must be", "1 or more", "0"]),
    (lambda r: r.recommend("u1", -5), ["n must be", "-5"]),
    (lambda r: r.recommend("u1", 2.0), ["n must be", "2.0"]),
    (lambda r: r.train([event()], epochs=0), ["epochs", "0"]),
    # a field twice
    (lambda r: r.add_context(Category("device")), ["duplicate", "'device'"]),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_bad_input(case: int, unchanged: Callable[..., str]) -> None:
    action, names = CASES[case]
    recommender = filled()
    message = unchanged(recommender, InvalidInput, lambda: action(recommender))
    for name in names:
        assert name in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "action",
    [
        lambda r: r.item("nothing"),
        lambda r: r.user("nobody"),
        lambda r: r.explain("u1", "nothing"),
        lambda r: r.predict("u1", "nothing"),
        lambda r: r.rank("u1", "nothing"),
    ],
)
def test_what_is_not_there(action: Callable[[Recommender], object], unchanged: Callable[..., str]) -> None:
    recommender = filled()
    message = unchanged(recommender, UnknownId, lambda: action(recommender))
    assert "'nothing'" in message or "'nobody'" in message
    assert "put_" in message


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (lambda r: r.remove_item("zzz"), "item 'zzz' is not in the catalogue; there is nothing to remove"),
        (lambda r: r.forget_user("zzz"), "user 'zzz' is not known; there is nothing to forget"),
    ],
)
def test_who_is_not_there_need_not_be_put_to_be_removed(
    action: Callable[[Recommender], object], said: str, unchanged: Callable[..., str]
) -> None:
    recommender = filled()
    assert unchanged(recommender, UnknownId, lambda: action(recommender)) == said


def test_a_time_without_a_zone_is_given_one_and_not_replaced_by_now() -> None:
    with pytest.raises(
        InvalidInput, match=r"time zone, got datetime.*; write .replace\(tzinfo=timezone.utc\) .* UTC"
    ) as raised:
        Event("u", "i", datetime(2024, 5, 1, 12, 0))  # noqa: DTZ001
    assert "now" not in str(raised.value)


@pytest.mark.parametrize("wanted", [2.5, [None], [["a"]]])
def test_a_filter_speaks_of_itself_and_not_of_an_item(wanted: object, unchanged: Callable[..., str]) -> None:
    recommender = filled()
    said = unchanged(recommender, InvalidInput, lambda: recommender.recommend("u1", where={"genre": wanted}))
    assert said.startswith("where: genre must be a list of strings, got ")


def test_removing_twice(unchanged: Callable[..., str]) -> None:
    recommender = filled()
    recommender.remove_item("i1")
    recommender.forget_user("u1")
    unchanged(recommender, UnknownId, lambda: recommender.remove_item("i1"))
    unchanged(recommender, UnknownId, lambda: recommender.forget_user("u1"))


def test_a_closed_context_refuses_new_fields(unchanged: Callable[..., str]) -> None:
    recommender = Recommender(Schema(open_context=False, context=[Category("device")]))
    recommender.learn(event(device="tv"))
    assert "'weather'" in unchanged(recommender, InvalidInput, lambda: recommender.learn(event(weather="sunny")))
    unchanged(recommender, InvalidInput, lambda: recommender.recommend("u1", context={"weather": "sunny"}))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"factors": -1}, ["factors", "-1"]),
        ({"factors": 2.5}, ["factors", "2.5"]),
        ({"learning_rate": 0}, ["learning_rate", "from 1e-12"]),
        ({"learning_rate": NAN}, ["learning_rate", "nan"]),
        ({"initial_deviation": 1e39}, ["initial_deviation", "1e+39"]),
        ({"factors": 10**12}, ["factors", "10000"]),
        ({"preset": {"factors": 3}}, ["preset", "'factors'"]),
        ({"adagrad_window": 0.5}, ["adagrad_window", "0.5", "0 for all updates, or 1 or more"]),
        ({"loss": "hinge"}, ["loss", "'hinge'", "'softmax'"]),
        ({"negatives": 0}, ["negatives", "'softmax'"]),
        ({"trends": [100, -1]}, ["trends", "-1"]),
        ({"trends": "x"}, ["trends", "'x'"]),
        ({"linear": 1}, ["linear", "1"]),
        ({"speed": 3}, ["speed", "3", "learning_rate"]),
        ({"preset": "best"}, ["preset", "'best'", "'paper'"]),
        ({"seed": 1.5}, ["seed", "1.5"]),
        ({"seed": 2**64}, ["seed", str(2**64)]),
    ],
)
def test_hyperparameters(changes: dict, names: list[str]) -> None:
    with pytest.raises(InvalidInput) as error:
        Recommender(SCHEMA, **changes)
    for name in names:
        assert name in str(error.value)


def test_a_schema_is_a_schema() -> None:
    with pytest.raises(InvalidInput, match="from_toml"):
        Recommender("schema.toml")


@pytest.mark.parametrize("preset", ["paper", "default"])
@pytest.mark.parametrize("item", ["i1", "a new item"])
def test_divergence_is_caught_and_changes_nothing(preset: str, item: str, unchanged: Callable[..., str]) -> None:
    schema = Schema(item=[Id()], context=[Number("size"), Category("device")])
    # AdaGrad divides every gradient by its own size, so it takes plain descent to diverge in the default's loss.
    recommender = Recommender(schema, preset, factors=4, negatives=3 if preset == "default" else 0, optimizer="sgd")
    for n in range(10):
        recommender.learn(Event(f"u{n}", f"i{n}", 0.0, {"size": 1.0}))
    huge = Event("a new user", item, 0.0, {"size": 9e8, "weather": "never seen", "device": "new"})
    for bad in [huge] * 20:
        try:
            recommender.learn(bad)
        except Diverged:
            break
    message = unchanged(recommender, Diverged, lambda: recommender.learn(huge) or recommender.learn(huge))
    for name in ("'a new user'", repr(item), "learning_rate", "scale"):
        assert name in message
    recommender.learn(Event("u1", "i1", 0.0, {"size": 0.0}))


def test_training_that_diverges_changes_nothing(unchanged: Callable[..., str]) -> None:
    recommender = filled("paper")
    recommender.put_item("i1", {"price": 9e9})
    events = [Event("x", f"i{n % 3}", 0.0, {"weather": "new"}) for n in range(20)]
    assert "training" in unchanged(recommender, Diverged, lambda: recommender.train(events, epochs=5))


@pytest.mark.parametrize(
    ("x", "y", "names"),
    [
        ({"a": NAN}, 1.0, ["a", "nan"]),
        ({"a": None}, 1.0, ["a", "None"]),
        ({"": 1.0}, 1.0, ["''"]),
        ({3: 1.0}, 1.0, ["3"]),
        ([1, 2], 1.0, ["[1, 2]"]),
        ({"a": 1.0}, NAN, ["y", "nan"]),
        ({"a": 1.0}, "1", ["y", "'1'"]),
        ({"a": 1.0}, 2.0, ["y", "2.0", "0 and 1"]),
    ],
)
def test_the_general_predictor(x: object, y: object, names: list[str]) -> None:
    machine = FactorizationMachine(loss="logistic")
    machine.learn_one({"a": 1.0, "b": "x"}, 1)
    before = {name: array.tobytes() for name, array in machine.state().items()}
    with pytest.raises(InvalidInput) as error:
        machine.learn_one(x, y)
    for name in names:
        assert name in str(error.value)
    assert {name: array.tobytes() for name, array in machine.state().items()} == before


def test_all_errors_are_ours() -> None:
    assert issubclass(InvalidInput, ColdstreamError)
    assert issubclass(UnknownId, ColdstreamError)
    assert issubclass(Diverged, ColdstreamError)
