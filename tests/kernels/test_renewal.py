"""Sums that begin anew: the twin's, when that is, and that a stream whose taste has changed is followed."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import Pair

from coldstream import Event, Recommender, Schema
from coldstream.config import Hyperparameters
from coldstream.model.losses import CODES, gradients
from coldstream.model.renewal import (
    ENOUGH,
    EVENTS,
    LAST,
    LONG,
    LONG_MEMORY,
    RENEWED,
    SHORT,
    SHORT_MEMORY,
    notice,
    surprise_of,
)


@pytest.mark.parametrize("pairs", ["across", "j>i"])
@pytest.mark.parametrize("regularization", ["fixed", "paper", "per-field"])
def test_every_row_begins_anew_once_at_its_next_touch(pairs: str, regularization: str) -> None:
    h = Hyperparameters(
        factors=3, pairs=pairs, regularization=regularization, learning_rate=0.01, adagrad_floor=0.1, penalty_rate=0.001
    )
    pair, plain, rng = Pair(h, 1), Pair(h, 1), np.random.default_rng(1)
    for n in range(30):
        x = {int(c): float(rng.uniform(0.3, 1)) for c in rng.choice(5, 2, replace=False)}
        items = [{int(c): float(rng.uniform(0.3, 1))} for c in rng.choice(range(5, 10), 3, replace=False)]
        pair.learn(x, items)
        plain.learn(x, items)
        if n == 14:
            pair.kernel.parameters.optimizer.surprise[RENEWED] = pair.at + 1
            pair.twin.renew()
    pair.assert_equal()
    assert (pair.kernel.parameters.rows.GV[:10] < plain.kernel.parameters.rows.GV[:10]).all()


@given(scores=st.lists(st.floats(-9, 9), min_size=2, max_size=9))
def test_surprise_is_the_loss_of_softmax(scores: list[float]) -> None:
    g = np.empty(len(scores))
    gradients(CODES["softmax"], 1.0, 1.0, np.array(scores), g)
    loss = math.log(sum(math.exp(y) for y in scores)) - scores[0]
    assert surprise_of(g[0]) == pytest.approx(min(loss, -math.log(1e-6)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("pairs", ["across", "j>i"])
def test_a_weight_is_no_surprise_and_neither_is_a_dislike(pairs: str) -> None:
    h = Hyperparameters(factors=3, pairs=pairs, renewal=0.5)
    context, items = {0: 1.0, 1: 0.5}, [{5: 1.0}, {6: 1.0}, {7: 0.7}]
    found = {}
    for weight in (1.0, 0.2, 3.0, -1.0):
        pair = Pair(h, 1)
        pair.kernel.parameters.optimizer.surprise[LAST] = -7.0
        assert pair.learn_kernel(context, items, 1.0, weight)
        found[weight] = float(pair.kernel.parameters.optimizer.surprise[LAST])
    assert found[0.2] == pytest.approx(found[1.0])
    assert found[3.0] == pytest.approx(found[1.0])
    assert found[-1.0] == -7.0


def means(surprises: list[float], memory: float) -> list[float]:
    """The definition: the mean of all, and once there are as many as are remembered, one that forgets."""
    found, mean = [], 0.0
    for n, own in enumerate(surprises, 1):
        share = 1 / min(n, memory)
        mean = (1 - share) * mean + share * own
        found.append(mean)
    return found


def test_all_begins_anew_where_the_short_mean_has_risen_above_the_long_one() -> None:
    machine = Pair(Hyperparameters(factors=2, renewal=0.5)).kernel
    state, rng = machine.parameters.optimizer, np.random.default_rng(3)
    calm, excited = rng.gamma(2.0, 1.0, int(ENOUGH) + 999).tolist(), (1.5 + rng.gamma(2.0, 1.0, 3000)).tolist()
    short, long = means(calm + excited, SHORT_MEMORY), means(calm + excited, LONG_MEMORY)
    expected = next(n for n in range(int(ENOUGH) - 1, len(short)) if short[n] - long[n] > 0.5)
    assert expected >= len(calm)
    for n, own in enumerate(calm + excited):
        state.surprise[LAST] = own
        notice(state, machine.rule, 100 + n)
        if n == expected:
            break
        assert state.surprise[RENEWED] == 0
        assert state.surprise[[SHORT, LONG]] == pytest.approx([short[n], long[n]])
    assert state.surprise[RENEWED] == 100 + expected + 1
    assert state.surprise[EVENTS] == 0
    for n in range(int(ENOUGH) - 1):  # and not again before there was enough to compare with
        state.surprise[LAST] = float(n)
        notice(state, machine.rule, n)
    assert state.surprise[RENEWED] == 100 + expected + 1


@pytest.mark.parametrize("changes", [{"renewal": 0.0}, {"optimizer": "sgd"}, {"loss": "squared", "negatives": 0}])
def test_what_has_no_sums_or_no_surprise_never_begins_anew(changes: dict) -> None:
    assert Pair(Hyperparameters(factors=2, **changes)).kernel.rule.renewal == 0


GROUPS, ITEMS = 20, 200


def choices(count: int, shift: int, seed: int) -> list[Event]:
    """Users who each take items of one group, and of another one after a shift."""
    rng = np.random.default_rng(seed)
    users, drawn = rng.integers(100, size=count).tolist(), rng.integers(ITEMS // GROUPS, size=count).tolist()
    return [Event(f"u{u}", f"i{GROUPS * n + (u + shift) % GROUPS}") for u, n in zip(users, drawn, strict=True)]


def test_a_change_of_taste_is_noticed_and_the_same_after_a_restart(tmp_path: Path) -> None:
    options = {"factors": 4, "negatives": 20, "trends": (), "neighbours": 0, "history": 0}
    ours = Recommender(Schema(exclude_seen=False), **options)
    never = Recommender(Schema(exclude_seen=False), renewal=0.0, **options)
    before, after = choices(int(ENOUGH) + 1000, 0, 1), choices(3000, 7, 2)
    for own in (ours, never):
        own.learn(before)
        assert own.renewed_at is None
    assert ours.recommend("u1", 20) == never.recommend("u1", 20)
    ours.save(tmp_path / "before")
    again = Recommender.load(tmp_path / "before")
    for own in (ours, never):
        own.learn(after)
    for event in after:
        again.learn(event)
    assert len(before) < ours.renewed_at <= len(before) + 2000
    assert again.renewed_at == ours.renewed_at
    assert never.renewed_at is None
    assert again.recommend("u1", 20) == ours.recommend("u1", 20)

    def hits(recommender: Recommender) -> int:
        wanted = {event.user: int(event.item[1:]) % GROUPS for event in after}
        return sum(
            int(one.item[1:]) % GROUPS == group for user, group in wanted.items() for one in recommender.recommend(user, 5)
        )

    assert hits(ours) > 1.1 * hits(never)
