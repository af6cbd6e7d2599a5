"""The live evaluation takes what the work leaves, and never stops for good."""

import pytest

from coldstream.runtime.writing import live_learning
from coldstream.runtime.writing.live_learning import ALWAYS, MOST_SAVED, TimeBudget


class Clocks:
    """The time that passes, and the time of it in which the process worked."""

    def __init__(self) -> None:
        self.now = self.worked = 100.0

    def pass_by(self, seconds: float, worked: float) -> None:
        self.now += seconds
        self.worked += worked


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(live_learning, "perf_counter", lambda: clocks.now)
    monkeypatch.setattr(live_learning, "process_time", lambda: clocks.worked)
    return clocks


def test_idle_time_earns_its_share_and_work_earns_nearly_nothing(clocks: Clocks) -> None:
    def earned(worked: float) -> float:
        budget = TimeBudget(0.25)
        budget.spend(MOST_SAVED + 10.0)
        clocks.pass_by(1.0, worked)
        budget.left()
        return budget._saved + 10.0

    assert earned(0.0) == pytest.approx(0.25)
    assert earned(0.6) == pytest.approx(0.1)
    assert earned(1.0) == pytest.approx(ALWAYS)
    assert earned(1.8) == pytest.approx(ALWAYS)  # two threads


def test_what_is_spent_beyond_the_savings_has_to_be_earned_first(clocks: Clocks) -> None:
    budget = TimeBudget(0.5)
    assert budget.left()
    budget.spend(MOST_SAVED + 0.1)
    assert not budget.left()
    clocks.pass_by(0.21, 0.0)
    assert budget.left()
    clocks.pass_by(1000.0, 0.0)
    assert budget.left()
    budget.spend(MOST_SAVED + 1e-6)
    assert not budget.left()


def test_a_share_of_nothing_earns_nothing_and_of_one_is_never_used_up(clocks: Clocks) -> None:
    nothing, everything = TimeBudget(0.0), TimeBudget(1.0)
    nothing.spend(MOST_SAVED)
    everything.spend(1000.0)
    clocks.pass_by(1.0, 1.0)
    assert not nothing.left()
    assert everything.left()
