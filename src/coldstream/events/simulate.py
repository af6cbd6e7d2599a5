"""The paper's synthetic clicks on advertisements: a stream with context, few items, and a drift of taste at its middle."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from coldstream.events.event import Event

CATEGORIES = (0, 0, 2, 2, 1)
"""Category of each of the five ads."""


class Segment(NamedTuple):
    """A segment of people by year of birth and state, and the ad that it likes."""

    born: range
    state: int
    ad: int


SEGMENTS = (
    Segment(range(1980, 1990), 32, 0),
    Segment(range(1950, 1960), 32, 1),
    Segment(range(1980, 1990), 3, 1),
    Segment(range(1950, 1960), 3, 0),
)


def click_items() -> dict[str, dict[str, Any]]:
    """Return the ads and their attributes."""
    return {f"ad{ad}": {"category": category} for ad, category in enumerate(CATEGORIES)}


def clicks(seed: int, impressions: int = 1_000_000) -> Iterator[Event]:
    """Yield the clicks among simulated impressions; in the second half, ad 3 is favoured instead of ad 2.

    Every impression shows a random ad to a random person. The probability of a click is 0.001, plus 0.01 for the favoured
    ad, plus 0.30 for the ad that the person's segment likes. The context is that of the paper's model: age as 1 − (2000 −
    year of birth)/70, sex, and state.
    """
    rng = np.random.default_rng(seed)
    year = rng.integers(1930, 2001, impressions)
    sex, state = rng.integers(0, 2, impressions), rng.integers(1, 51, impressions)
    ad = rng.integers(0, 5, impressions)
    favoured = np.where(np.arange(impressions) < impressions // 2, 2, 3)
    probability = 0.001 + 0.01 * (ad == favoured)
    for born, home, liked in SEGMENTS:
        member = (year >= born.start) & (year < born.stop) & (state == home)
        probability += 0.3 * (member & (ad == liked))
    for n in np.flatnonzero(rng.random(impressions) < probability).tolist():
        context = {"age": 1 - (2000 - int(year[n])) / 70, "sex": int(sex[n]), "state": int(state[n])}
        yield Event(f"visitor {n}", f"ad{ad[n]}", float(n), context)
