"""On the paper's stream the baselines reach the figures that were measured before this code was written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coldstream import Event
from coldstream.baselines.baseline import Baseline, Scorer
from coldstream.baselines.ease import Ease
from coldstream.baselines.item_knn import ItemKnn
from coldstream.baselines.markov import Markov
from coldstream.baselines.popularity import Popularity
from coldstream.baselines.recent_popularity import DecayedPopularity


@pytest.fixture(scope="module")
def stream(movielens: Path) -> list[Event]:
    rows = [line.split("\t") for line in (movielens / "u.data").read_text().splitlines()]
    return sorted(
        (Event(user, item, float(time)) for user, item, rating, time in rows if rating == "5"), key=lambda e: e.time
    )


def test_then_learn(baseline: Baseline, events: list[Event]) -> tuple[float, float]:
    """Recall@10 and MPR over the last 70 %."""
    trained, tested = int(0.2 * len(events)), int(0.2 * len(events)) + int(0.1 * len(events))
    for event in events[:tested]:
        baseline.add_user(event.user, {})
        baseline.add_item(event.item, {})
    baseline.train(events[:trained])
    for event in events[trained:tested]:
        baseline.learn(event)
    ranks = []
    for event in events[tested:]:
        baseline.add_user(event.user, {})
        baseline.add_item(event.item, {})
        ranks.append(baseline.rank(event.user, event.item, context={}, time=event.time))
        baseline.learn(event)
    hits = sum(rank.position < 10 for rank in ranks)
    percentiles = sum(100 * rank.position / (rank.candidates - 1) for rank in ranks)
    return hits / len(ranks), percentiles / len(ranks)


test_then_learn.__test__ = False  # the protocol's name, not a test's


@pytest.mark.parametrize(
    ("scorer", "recall", "mpr"),
    [
        # The .105 of mathematics.md is that of counts whose ties go to the item chosen last.
        pytest.param(lambda: DecayedPopularity(half_life=1e8), 0.105, 20.3, id="popularity, ties to the latest"),
        pytest.param(Popularity, 0.106, 20.3, id="popularity"),
        pytest.param(lambda: DecayedPopularity(half_life=10_000), 0.109, 20.2, id="half-life 10,000"),
        pytest.param(lambda: DecayedPopularity(half_life=2000), 0.111, 20.6, id="half-life 2,000"),
        pytest.param(lambda: DecayedPopularity(half_life=500), 0.106, 22.9, id="half-life 500"),
        pytest.param(Markov, 0.119, 20.3, id="markov"),
        pytest.param(ItemKnn, 0.160, 16.4, id="item-knn"),
        pytest.param(Ease, 0.167, 16.4, id="ease"),
    ],
)
def test_figures_agree_to_the_digit(stream: list[Event], scorer: Callable[[], Scorer], recall: float, mpr: float) -> None:
    measured = test_then_learn(Baseline(scorer(), repeats=False), stream)
    assert measured == (pytest.approx(recall, abs=0.0005), pytest.approx(mpr, abs=0.0505))
