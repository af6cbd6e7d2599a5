"""How often each client may ask."""

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.service.http.rates import Rates

RATES = st.floats(0.01, 1000)
# Powers of two are exact in floating point: the twin must then agree to the last bit.
EXACT_RATES = st.integers(-2, 3).map(lambda n: 2.0**n)
REQUESTS = st.lists(st.tuples(st.sampled_from("aaabcdefgh"), st.sampled_from([0, 0, 0, 1, 8, 64, 256])), max_size=80)


class Clock:
    """A clock that goes when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Buckets:
    """The slow twin, from the definition: tokens that drip into buckets which are never forgotten."""

    def __init__(self, rate: Fraction) -> None:
        self.rate, self.size = rate, max(Fraction(1), rate)
        self.tokens: dict[str, Fraction] = defaultdict(lambda: self.size)
        self.seen: dict[str, Fraction] = defaultdict(Fraction)

    def wait(self, name: str, now: Fraction) -> Fraction:
        self.tokens[name] = min(self.size, self.tokens[name] + self.rate * (now - self.seen[name]))
        self.seen[name] = now
        if self.tokens[name] < 1:
            return (1 - self.tokens[name]) / self.rate
        self.tokens[name] -= 1
        return Fraction(0)


@given(EXACT_RATES, REQUESTS)
def test_every_request_waits_as_long_as_the_twin_says(rate: float, requests: list[tuple[str, int]]) -> None:
    clock, twin = Clock(), Buckets(Fraction(rate))
    rates = Rates(rate, clock)
    for name, gap in requests:
        clock.now += gap / 64
        assert rates.wait(name) == twin.wait(name, Fraction(clock.now))


@given(RATES, st.lists(st.floats(0, 3), min_size=1, max_size=12), st.integers(1, 20))
def test_no_window_lets_more_pass_than_the_burst_and_the_rate(rate: float, gaps: list[float], tries: int) -> None:
    clock, passed = Clock(), []
    rates, burst = Rates(rate, clock), max(1.0, rate)
    for gap in gaps:
        clock.now += gap
        passed += [clock.now for _ in range(tries) if rates.wait("shop") == 0]
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + rate * (passed[last] - passed[first]) + 1e-6


@given(RATES, st.lists(st.floats(1.0001, 5), max_size=100))
def test_who_stays_below_the_rate_is_never_refused(rate: float, gaps: list[float]) -> None:
    clock = Clock()
    rates = Rates(rate, clock)
    for gap in gaps:
        clock.now += gap / rate
        assert rates.wait("shop") == 0


@given(RATES, st.lists(st.floats(0, 2), max_size=50))
def test_who_waits_as_told_passes(rate: float, gaps: list[float]) -> None:
    clock = Clock()
    rates = Rates(rate, clock)
    for gap in gaps:
        clock.now += gap
        if (wait := rates.wait("shop")) > 0:
            clock.now += wait + 1e-9
            assert rates.wait("shop") == 0


def test_one_client_does_not_use_up_anothers_requests() -> None:
    rates = Rates(1, Clock())
    assert rates.wait("a") == 0
    assert rates.wait("a") == 1
    assert rates.wait("b") == 0


def test_a_refused_request_does_not_count() -> None:
    clock = Clock()
    rates = Rates(1, clock)
    assert [rates.wait("a") for _ in range(50)] == [0, *[1] * 49]
    clock.now = 1.0
    assert rates.wait("a") == 0


def test_zero_is_no_limit_and_remembers_nobody() -> None:
    rates = Rates(0, Clock())
    assert {rates.wait("a") for _ in range(1000)} == {0}
    assert len(rates) == 0


@pytest.mark.parametrize("rate", [0.5, 1, 8])
def test_no_more_names_are_remembered_than_pass_while_a_bucket_fills(rate: float) -> None:
    clock = Clock()
    rates, filling = Rates(rate, clock), max(1.0, rate) / rate
    for number in range(5000):
        clock.now += 1 / 64
        rates.wait(f"address {number}")
        assert len(rates) <= 64 * filling


def crowded(clock: Clock, crowd: int) -> Rates:
    """One request per second, and a crowd that came in the first."""
    rates = Rates(1, clock)
    for number in range(crowd):
        assert rates.wait(f"address {number}") == 0
    assert len(rates) == crowd
    return rates


def test_a_crowd_is_forgotten_after_it_is_gone_while_others_come() -> None:
    clock = Clock()
    rates = crowded(clock, 1000)
    for number in range(1000):
        clock.now += 10
        rates.wait(f"later {number}")
        assert len(rates) == max(1, 999 - number)


def test_a_bucket_that_is_still_remembered_is_no_more_than_full() -> None:
    clock = Clock()
    rates = crowded(clock, 1000)
    clock.now = 100.0
    assert [rates.wait("address 999") for _ in range(3)] == [0, 1, 1]


def test_who_asks_again_and_again_does_not_keep_the_others_remembered() -> None:
    clock = Clock()
    rates = Rates(4, clock)
    for _ in range(3):
        rates.wait("regular")
    for number in range(2000):
        clock.now += 1 / 4
        assert rates.wait("regular") == 0
        rates.wait(f"address {number}")
        assert len(rates) <= 2 * 4 + 1
