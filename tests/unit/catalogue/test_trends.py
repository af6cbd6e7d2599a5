"""Trends are the logarithm of a decaying count, whenever one looks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import Event, Id, Recommender, Schema, Trend
from coldstream.catalogue.scan_order import ScanOrder
from coldstream.catalogue.trends import EPSILON, count_trend, enter, pass_by, trends_of, value_at
from coldstream.model.kernels import itself
from coldstream.model.keyed_random import key_of
from coldstream.model.shapes import PAIRS, Theta
from coldstream.scoring.folding import fold_trends
from coldstream.support.compiled import kernel

HALF_LIVES = [2.0, 50.0]


@kernel
def value_of(trends, rows, position, h, clock):
    return value_at(trends, rows, position, h, clock)


def level(count: float) -> float:
    return math.log(max(count, EPSILON) / EPSILON)


def definition(touches: list[int], half_life: float, now: int) -> float:
    return level(sum(2.0 ** (-(now - touch) / half_life) for touch in touches if touch < now))


def newcomer(stream: list[int], came: list[int], slot: int, half_life: float, now: int) -> float:
    """Unchosen items chosen over fresh unchosen items there were, both fading with the half-life, × half-life / log 2."""
    chosen = there = 0.0
    for t in range(now):
        unchosen = [other for other in range(len(came)) if came[other] <= t and other not in stream[:t]]
        fresh = sum(2.0 ** (-(t - came[other]) / min(HALF_LIVES)) for other in unchosen)
        worth = 2.0 ** (-(now - 1 - t) / half_life)
        chosen, there = chosen + worth * (stream[t] in unchosen), there + worth * fresh
    prior = level(chosen / (there + 1) * half_life / math.log(2)) if now else 0.0
    return max(prior - math.log(2) / min(HALF_LIVES) * (now - came[slot]), 0)


@given(st.lists(st.integers(-1, 5), min_size=1, max_size=60), st.lists(st.integers(0, 40), min_size=6, max_size=6))
def test_values_follow_the_definition(stream: list[int], wait: list[int]) -> None:
    # An item comes at some time, at the latest with its first event. −1 is an event that is no choice.
    came = [min(wait[slot], stream.index(slot) if slot in stream else 99) for slot in range(6)]
    # They lie by position, in an order of their own.
    trends, order = trends_of(HALF_LIVES, [0, 1]), ScanOrder(0, 0, len(HALF_LIVES))
    for slot in (3, 0, 5, 1, 4, 2):
        order.append(slot, slot)
    rows, position = order.rows, order.position.tolist()
    for now, slot in enumerate(stream):
        for other in range(6):
            if came[other] == now:
                enter(trends, rows, position[other], now)
        for other in range(6):
            touches = [t for t, s in enumerate(stream[:now]) if s == other]
            for h, half_life in enumerate(HALF_LIVES):
                if touches:  # a count at clock t is as of just after event t: what event `now` sees has decayed since
                    expected = definition(touches, half_life, now)
                elif came[other] <= now:
                    expected = newcomer(stream, came, other, half_life, now)
                else:
                    continue
                assert value_of(trends, rows, position[other], h, now) == pytest.approx(expected, abs=2e-4)
        if slot < 0:
            pass_by(trends)
        else:
            count_trend(trends, rows, position[slot], now)


def test_a_removed_item_is_no_newcomer_any_more() -> None:
    recommender = Recommender(Schema(item=[Id(), Trend("hot", 20)], exclude_seen=False), seed=1)
    for item in ("a", "b", "c"):
        recommender.put_item(item)

    def unchosen() -> float:
        return float(recommender.engine.shared.catalogue.items.trends.unchosen_total[0])

    assert unchosen() == 3
    recommender.learn(Event("u", "a"))
    fresh = 2.0 ** (-1 / 20)
    assert unchosen() == pytest.approx(2 * fresh)
    recommender.remove_item("b")
    assert unchosen() == pytest.approx(fresh)
    recommender.remove_item("a")
    assert unchosen() == pytest.approx(fresh)
    recommender.put_item("b")
    assert unchosen() == pytest.approx(1 + fresh)


def test_newcomers_are_as_hot_as_newcomers_were() -> None:
    """Where new items are chosen at once, the next one is expected to be; where they never are, it is not."""
    places = {}
    for welcome in (True, False):
        recommender, rng = Recommender(Schema(exclude_seen=False), seed=1), np.random.default_rng(0)
        for item in range(50):
            recommender.put_item(f"old {item}")
        for n in range(400):
            recommender.put_item(f"new {n}")
            chosen = f"new {n}" if welcome and n % 2 else f"old {rng.integers(50)}"
            recommender.learn(Event(f"u{n % 7}", chosen))
        recommender.put_item("newest")
        rank = recommender.rank("somebody", "newest")
        places[welcome] = rank.position / rank.candidates
    assert places[True] < 0.02 < places[False]


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


def test_training_sees_trends_as_they_were_before_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch in order of time is the same as learning event by event, trends included."""
    schema = Schema(item=[Id(), Trend("hot", 5), Trend("warm", 40)], exclude_seen=False)
    events = [Event(f"u{n % 4}", f"i{n * n % 7}") for n in range(50)]
    one_by_one, batch = (Recommender(schema, seed=2, factors=4, negatives=3) for _ in range(2))
    for recommender in (one_by_one, batch):
        for n in range(7):
            recommender.put_item(f"i{n}")
        for event in events[:10]:
            recommender.learn(event)
    monkeypatch.setattr("coldstream.engine.training.shuffled", lambda key, n: np.arange(n, dtype=np.int32))
    batch.train(events[10:], epochs=1)
    one_by_one.engine.shared._draw_key = key_of(2, "training")
    for event in events[10:]:
        one_by_one.learn(event)
    ours, theirs = batch.state(), one_by_one.state()
    assert ours[0] == theirs[0]
    for name, array in ours[1].items():
        if name != "model.surprise":  # what is learned in any order cannot become more surprising
            np.testing.assert_array_equal(array, theirs[1][name], err_msg=name)


@pytest.mark.parametrize("pairs", ["j>i", "j>=i"])
def test_of_two_trends_every_pair_that_counts_is_folded_and_nothing_else_is_written(pairs: str) -> None:
    rng, kind = np.random.default_rng(2), PAIRS[pairs]
    V = rng.normal(size=(7, 5)).astype(np.float32)
    theta = Theta(np.zeros(1), np.zeros(7, np.float32), V, np.zeros(7, np.int32))
    column, Z = np.array([6, 1, 4], np.int32), rng.normal(size=(9, 5)).astype(np.float32)
    product, pair = np.empty((3, 9), np.float32), np.full((3, 3), np.nan, np.float32)
    fold_trends(theta, column, kind, Z, product, pair)
    np.testing.assert_allclose(product, V[column] @ Z.T, rtol=1e-5, atol=1e-6)
    wanted = np.tril(V[column] @ V[column].T)
    wanted[np.arange(3), np.arange(3)] *= itself(kind)
    wanted[np.triu_indices(3, 1)] = np.nan
    np.testing.assert_allclose(pair, wanted, rtol=1e-5, atol=1e-6)
