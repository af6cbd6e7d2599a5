"""What the figures of a sample are, by the second: a service that says what it is told to, and clocks that go when told."""

import math
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.recommender import Size
from coldstream.runtime.live_evaluation import LiveMetrics, MethodMetrics
from coldstream.service.handlers import live_samples as module
from coldstream.service.handlers.live_samples import LiveSamples


class Told:
    """A service, as far as samples ask it, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.wall = 500.0, 1_700_000_000.25
        self.events = self.arrivals = self.features = 0
        self.penalties: dict[str, float] = {}
        self.requests = SimpleNamespace(answered=0, recent=deque[float]())
        self.evaluation = SimpleNamespace(metrics=self._metrics, alarms=list[int](), top=10, window=50)
        self.asked = list[tuple[str, str]]()
        service = SimpleNamespace(
            recommender=self, learner=SimpleNamespace(evaluation=self.evaluation), metrics=SimpleNamespace(of=self._of)
        )
        self.inspection = SimpleNamespace(penalties=lambda: self.penalties)
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module.time, "time", lambda: self.wall)
        self.samples = LiveSamples(cast(Any, service))

    @property
    def size(self) -> Size:
        return Size(3, 4, self.features, self.arrivals)

    def _of(self, *call: str) -> Any:
        self.asked.append(cast(Any, call))
        return self.requests

    def _metrics(self) -> LiveMetrics:
        methods = {"coldstream": MethodMetrics(0.1234567, None)}
        return LiveMetrics(10, 50, self.events, 0, 0.3333333, 0.6666666, None, methods)

    def sample(self, seconds: float = 0.0, **changes: int) -> Any:
        """One more sample, so many seconds later and after some changes."""
        self.now, self.wall = self.now + seconds, self.wall + seconds
        for name, value in changes.items():
            setattr(self, name, value)
        self.samples.sample()
        return self.samples.samples[-1]

    def marks(self) -> list[tuple[str, str]]:
        return [(one.kind, one.text) for one in self.samples.annotations]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def test_rates_are_of_the_time_since_the_sample_before(told: Told) -> None:
    told.requests.answered = 40
    first = told.sample(events=100)
    assert (first.events_per_second, first.recommendations_per_second) == (0.0, 0.0)  # since when, nobody knows
    told.requests.answered = 45
    second = told.sample(2.0, events=130)
    assert (second.events_per_second, second.recommendations_per_second) == (15.0, 2.5)
    told.requests.answered = 46
    third = told.sample(3.0, events=130)
    assert (third.events_per_second, third.recommendations_per_second) == (0.0, 0.33)
    assert told.sample(0.0, events=131).events_per_second == 1000.0  # no moment is shorter than a thousandth
    assert set(told.asked) == {("POST", "/recommend")}


def test_each_sample_has_a_number_that_rises_and_the_time(told: Told) -> None:
    seq = [told.sample(seconds).seq for seconds in (0.0, 1.0, 0.1, 0.1, -60.0)]
    assert seq == [1_700_000_000, 1_700_000_001, 1_700_000_002, 1_700_000_003, 1_700_000_004]
    assert [one.time for one in told.samples.samples[:3]] == [1_700_000_000.25, 1_700_000_001.25, 1_700_000_001.35]


def test_times_are_milliseconds_and_shares_have_five_digits(told: Told) -> None:
    assert (told.sample().p50_ms, told.sample().p99_ms) == (None, None)
    told.requests.recent.extend([0.001, 0.003, 0.002])
    own = told.sample()
    assert (own.p50_ms, own.p99_ms) == (2.0, 2.98)
    assert (own.sampled, own.new_users, own.new_items) == (0.33333, 0.66667, None)
    assert (own.methods["coldstream"].recall, own.methods["coldstream"].mpr) == (0.12346, None)


def test_penalties_are_finite_short_and_not_too_many(told: Told) -> None:
    told.penalties = {"a": 0.123456, "b": math.inf, "c": math.nan, **{f"f{n}": 1.0 for n in range(100)}}
    own = told.sample().penalties
    assert own["a"] == 0.1235
    assert list(own) == ["a", *(f"f{n}" for n in range(61))]


def test_new_features_are_those_since_a_window_of_events_ago(told: Told) -> None:
    events = (0, 20, 50, 60, 101, 110, 500)
    found = [told.sample(1.0, events=own, features=2**n).new_features for n, own in enumerate(events)]
    # A window is 50 events: the first sample that had at least those of before it is what is compared with.
    assert found == [0, 2 - 1, 4 - 1, 8 - 2, 16 - 8, 32 - 8, 0]


def test_items_that_come_are_marked_once_in_a_while_and_not_those_of_the_beginning(told: Told) -> None:
    told.sample(1.0, arrivals=5)
    told.sample(1.0, arrivals=9)
    told.sample(1.0, events=1, arrivals=12)
    assert told.marks() == []  # what the catalogue begins with, before anybody chose anything
    told.sample(20.0, arrivals=13)
    assert told.marks() == [("items", "1 new item")]
    told.sample(14.75, arrivals=15)
    assert len(told.marks()) == 1
    told.sample(0.25, arrivals=16)
    assert told.marks()[1:] == [("items", "3 new items")]
    told.sample(20.0)
    assert len(told.marks()) == 2
    assert [one.seq for one in told.samples.annotations] == [told.samples.samples[3].seq, told.samples.samples[5].seq]


def test_drift_is_marked_once_where_it_was_and_not_what_was_before_the_first_sample(told: Told) -> None:
    told.evaluation.alarms.append(7)
    told.sample(1.0)
    told.sample(1.0)
    assert told.marks() == []
    told.evaluation.alarms.append(90)
    told.sample(1.0, events=99)
    told.sample(1.0)
    assert told.marks() == [("drift", "drift was noticed")]
    assert told.samples.annotations[0].events == 90


def test_every_other_of_the_older_half_goes_where_there_are_too_many(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SAMPLES", 8)
    monkeypatch.setattr(module, "MOST_ANNOTATIONS", 2)
    for n in range(8):
        told.sample(1.0, events=n)
    assert [one.events for one in told.samples.samples] == list(range(8))
    told.sample(1.0, events=8)
    assert [one.events for one in told.samples.samples] == [0, 2, 4, 5, 6, 7, 8]
    for n in range(4):
        told.evaluation.alarms.append(n)
        told.sample(1.0)
    assert [one.events for one in told.samples.annotations] == [2, 3]
    text = told.samples.encoded()
    monkeypatch.setattr(module, "MOST_SAMPLES", 3)
    monkeypatch.setattr(module, "MOST_ANNOTATIONS", 1)
    again = Told(monkeypatch)
    again.samples.restore(text)
    assert again.samples.samples == told.samples.samples[-3:]
    assert again.samples.annotations == told.samples.annotations[-1:]
    again.samples.samples.clear()
    for changed in ({"top": 3}, {"window": 51}):
        other = Told(monkeypatch)
        vars(other.evaluation).update(changed)
        other.samples.restore(text)
        assert other.samples.samples == []
