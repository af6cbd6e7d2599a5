"""A change of taste is noticed, and nothing else is."""

from itertools import chain

import numpy as np

from coldstream import Recommender
from coldstream.demo.scenarios import SCENARIOS
from coldstream.events.simulate import click_items, clicks
from coldstream.runtime.drift import PageHinkley


def alarms(ranks: np.ndarray) -> list[int]:
    drift = PageHinkley()
    return [n for n, rank in enumerate(ranks.tolist()) if drift.update(rank)]


def test_steady_ranks_raise_no_alarm() -> None:
    for seed in range(20):
        assert alarms(np.random.default_rng(seed).exponential(15, 5000).clip(0, 100)) == []


def test_ranks_that_become_better_raise_no_alarm() -> None:
    rng = np.random.default_rng(1)
    assert alarms(np.concatenate([rng.uniform(0, 100, 1500), rng.exponential(10, 3000).clip(0, 100)])) == []


def test_ranks_that_become_worse_raise_one_soon_after() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        before, after = rng.exponential(12, 2000).clip(0, 100), rng.uniform(0, 80, 400)
        (first, *_) = alarms(np.concatenate([before, after]))
        assert 2000 <= first < 2150


def test_after_an_alarm_it_begins_anew() -> None:
    rng = np.random.default_rng(3)
    levels = [rng.exponential(scale, 1500).clip(0, 100) for scale in (8, 40, 8, 40)]
    found = alarms(np.concatenate(levels))
    assert any(1500 <= n < 1700 for n in found)
    assert any(4500 <= n < 4700 for n in found)


def test_on_the_papers_clicks_every_change_of_taste_is_noticed() -> None:
    days = [list(clicks(seed)) for seed in range(2)]
    first = len(days[0])
    changes = [sum(e.time < 500_000 for e in days[0]), first, first + sum(e.time < 500_000 for e in days[1])]
    recommender, drift, found = Recommender(SCENARIOS["clicks"].schema()), PageHinkley(), []
    for item, attributes in click_items().items():
        recommender.put_item(item, attributes)
    for n, event in enumerate(chain(*days)):
        rank = recommender.rank(event.user, event.item, context=event.context, time=event.time)
        if drift.update(100 * rank.position / (rank.candidates - 1)):
            found.append(n)
        recommender.learn(event)
    assert all(any(change <= alarm < change + 150 for alarm in found) for change in changes), (changes, found)
    assert len(found) <= 5, (changes, found)


def test_its_state_goes_on() -> None:
    ranks = np.concatenate([np.random.default_rng(5).exponential(12, 900), np.full(200, 60.0)])
    one = PageHinkley()
    for rank in ranks[:500].tolist():
        one.update(rank)
    two = PageHinkley.from_state(one.state())
    assert [one.update(rank) for rank in ranks[500:].tolist()] == [two.update(rank) for rank in ranks[500:].tolist()]
