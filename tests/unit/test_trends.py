"""Trends are the logarithm of a decaying count, whenever one looks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import Event, Id, Recommender, Schema, Trend
from coldstream.catalogue.trends import EPSILON, count_touch, trend_value, trends_of
from coldstream.model.compiled import kernel

HALF_LIVES = [2.0, 50.0]


@kernel
def value_of(trends, slot, h, clock):
    return trend_value(trends, slot, h, clock)


def definition(touches: list[int], half_life: float, now: int) -> float:
    count = sum(2.0 ** (-(now - touch) / half_life) for touch in touches if touch < now)
    return math.log(max(count, EPSILON) / EPSILON)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60))
def test_values_follow_the_definition(stream: list[int]) -> None:
    trends = trends_of(HALF_LIVES, [0, 1], False)
    trends = trends._replace(level=np.full((3, 2), -np.inf, np.float32), clock=np.zeros(3, np.int64))
    for now, slot in enumerate(stream):
        for other in range(3):
            touches = [t for t, s in enumerate(stream[:now]) if s == other]
            for h, half_life in enumerate(HALF_LIVES):
                # A count at clock t is as of just after event t: what event `now` sees has decayed since.
                expected = definition(touches, half_life, now)
                assert value_of(trends, other, h, now) == pytest.approx(expected, abs=2e-4)
        count_touch(trends, slot, now)


def test_a_trend_follows_the_stream_and_lifts_what_is_hot() -> None:
    recommender = Recommender(Schema(item=[Trend("hot", 20)], user=[Id()], exclude_seen=False), seed=1, history=0)
    rng = np.random.default_rng(0)
    for item in range(30):
        recommender.put_item(f"i{item}")
    for n in range(600):
        hot = (n // 100) % 3
        recommender.learn(Event(f"u{n}", f"i{hot if rng.random() < 0.7 else rng.integers(30)}"))
    best = recommender.recommend("someone", 1)[0].item
    assert best == "i2"
    (weight,) = [term for term in recommender.explain("someone", "i2").terms if term.features == ("item.hot",)]
    assert weight.value > 0


def test_training_sees_trends_as_they_were_before_each_event() -> None:
    """One epoch in order of time is the same as learning event by event, trends included."""
    schema = Schema(item=[Id(), Trend("hot", 5), Trend("warm", 40)], exclude_seen=False)
    events = [Event(f"u{n % 4}", f"i{n * n % 7}") for n in range(50)]
    one_by_one, batch = (Recommender(schema, seed=2, factors=4, negatives=3) for _ in range(2))
    for recommender in (one_by_one, batch):
        for n in range(7):
            recommender.put_item(f"i{n}")
        for event in events[:10]:
            recommender.learn(event)
    known = batch._known
    known._train_key = known._draw_key
    import coldstream.knowledge as knowledge

    original = knowledge.shuffled
    knowledge.shuffled = lambda key, n: np.arange(n, dtype=np.int32)
    try:
        batch.train(events[10:], epochs=1)
    finally:
        knowledge.shuffled = original
    for event in events[10:]:
        one_by_one.learn(event)
    ours, theirs = batch.state(), one_by_one.state()
    for name, array in ours[1].items():
        np.testing.assert_array_equal(array, theirs[1][name], err_msg=name)
