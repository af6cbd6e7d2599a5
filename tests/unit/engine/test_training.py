"""Batch training: epochs over known events."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import Again, Event, Follows, Id, LastItem, Recommender, Schema, Together, Trend
from coldstream.catalogue.contrast import learn_epoch
from conftest import bits
from filled import SCHEMA, filled, stream


def test_training_remembers_as_if_learned_one_by_one() -> None:
    trained, learned = (Recommender(SCHEMA, seed=1, factors=4) for _ in range(2))
    trained.train(stream(40), epochs=3)
    for event in stream(40):
        learned.learn(event)
    ours, theirs = trained.state(), learned.state()
    assert ours[0]["events"] == theirs[0]["events"] == 40
    for name in (
        "catalogue.level",
        "catalogue.counted_at",
        "catalogue.unchosen",
        "catalogue.choices",
        "users.id",
        "users.user",
    ):
        np.testing.assert_array_equal(ours[1][name], theirs[1][name])
    trained.learn(Event("u1", "i1"))


def test_training_is_repeatable_and_depends_on_the_seed() -> None:
    states = []
    for seed in (1, 1, 2):
        recommender = Recommender(SCHEMA, seed=seed, factors=4)
        recommender.train(stream(40), epochs=3)
        states.append(bits(recommender))
    assert states[0] == states[1] != states[2]


def test_more_epochs_fit_better() -> None:
    events = [Event(f"u{n % 9}", f"i{n % 3}") for n in range(90)]

    def mean_rank(epochs: int) -> float:
        recommender = Recommender(Schema(exclude_seen=False), seed=1, factors=4, history=0, neighbours=0, learning_rate=0.01)
        for n in range(40):
            recommender.put_item(f"i{n}")
        recommender.train(events, epochs)
        return float(np.mean([recommender.rank(event.user, event.item).position for event in events]))

    assert mean_rank(10) < mean_rank(1) < 19.5


def test_training_on_nothing_changes_nothing() -> None:
    recommender = filled()
    before = bits(recommender)
    recommender.train([])
    assert bits(recommender) == before


def test_the_papers_lambda_adapts_in_the_stream_only() -> None:
    recommender = Recommender(Schema(), "paper", factors=4)
    recommender.train([Event(f"u{n % 3}", f"i{n % 4}") for n in range(30)], epochs=2)
    state = recommender.engine.shared.machine.parameters.optimizer
    assert state.lambda_w[0] == 8
    assert (state.lambda_V == 16).all()
    recommender.learn(Event("u1", "i8"))
    recommender.learn(Event("u1", "i9"))
    assert 0 < abs(state.lambda_w[0] - 8) < 1e-3  # it has a long way to go: see docs/decisions/model.md on λ's inertia


CROSS_FEATURES = (Follows(), Together(length=3), Again())
COUNTED = {
    "paper": (Schema(), "paper"),
    "default": (Schema(), "default"),
    "repeats": (Schema(exclude_seen=False), "default"),
    "trends only": (
        Schema(item=(Id(), Trend("hot", 5), Trend("warm", 30, linear=False)), context=(LastItem(),)),
        "predictor",
    ),
    "cross features only": (Schema(item=(Id(), *CROSS_FEATURES), exclude_seen=False), "predictor"),
}


@given(
    st.sampled_from(sorted(COUNTED)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=25),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=25),
    st.lists(st.integers(0, 6), max_size=3, unique=True),
)
def test_what_is_counted_in_a_batch_is_what_is_counted_one_by_one(
    case: str, past: list[tuple[int, int]], later: list[tuple[int, int]], removed: list[int]
) -> None:
    """Items that come, go and come back within the batch included."""
    schema, preset = COUNTED[case]
    one_by_one, batch = (Recommender(schema, preset, seed=1, factors=2, learning_rate=1e-4) for _ in range(2))
    for recommender in (one_by_one, batch):
        recommender.put_item("i5")
        for user, item in past:
            recommender.learn(Event(f"u{user}", f"i{item}"))
        for item in removed:
            if f"i{item}" in recommender.items():
                recommender.remove_item(f"i{item}")
    events = [Event(f"u{user}", f"i{item}") for user, item in later]
    batch.train(events, epochs=2)
    for event in events:
        one_by_one.learn(event)
    ours, theirs = batch.state(), one_by_one.state()
    assert ours[0]["events"] == theirs[0]["events"]
    for name in ours[1]:
        if name.startswith(("catalogue.", "users.")):
            np.testing.assert_array_equal(ours[1][name], theirs[1][name], err_msg=name)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, MemoryError])
def test_training_that_is_interrupted_changes_nothing(
    interruption: type[BaseException], unchanged: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its second epoch, when parameters have moved; whoever pressed Ctrl-C in a notebook goes on with what was there."""
    recommender, epochs = filled(), []

    def interrupted(*args: object) -> int:
        epochs.append(len(epochs))
        if len(epochs) == 2:
            raise interruption
        return learn_epoch(*args)

    monkeypatch.setattr("coldstream.engine.training.learn_epoch", interrupted)
    new = [Event("a new user", f"a new item {n}", None, {"weather": "new"}) for n in range(5)]
    unchanged(recommender, interruption, lambda: recommender.train(stream(20) + new, epochs=3))
    assert len(epochs) == 2
    monkeypatch.undo()
    recommender.train(stream(20), epochs=1)


def test_cross_features_that_are_found_are_joined_now_and_then_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small arrays weigh much, so they become one every so often: it must not show."""
    states = []
    for many in (1024, 7, 1):
        monkeypatch.setattr("coldstream.engine.training._Found._MANY", many)
        recommender = Recommender(Schema(item=[Id(), Follows(), Together(), Again()]), seed=1, factors=3, negatives=3)
        recommender.train(stream(40), epochs=2)
        states.append(bits(recommender))
    assert states[0] == states[1] == states[2]
