"""Live (prequential) evaluation: rank each chosen item before learning, beside popularity baselines on the same events."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.baselines.popularity import Popularity
from coldstream.baselines.recent_popularity import NEVER, DecayedPopularity
from coldstream.baselines.user_past import UserPast
from coldstream.catalogue.slot_table import Place
from coldstream.evaluation.metrics import hits, mean, percentiles
from coldstream.events.event import Event
from coldstream.recommender import Recommender
from coldstream.runtime.drift import PageHinkley
from coldstream.scoring.ranking import Rank
from coldstream.support.arrays import Doubles, Longs, grown

METHODS = ("coldstream", "popularity", "recent_popularity")
"""The evaluated methods: the recommender, and the baselines that learn beside it (its shadows)."""

MOST_ALARMS = 1000
"""The largest number of drift alarms that are remembered."""

HALF_LIFE = 2000.0
"""The half-life of recent popularity in events."""

_NOTHING = UserPast()
"""An empty user history: popularity does not depend on the user."""


class MethodMetrics(NamedTuple):
    """Recall in the top and mean percentile rank of one method in the window; None where no event was ranked yet."""

    recall: float | None
    mpr: float | None


class LiveMetrics(NamedTuple):
    """The metrics of all methods over the window, and the share of events that they rest on."""

    top: int
    """The length of the list for which recall is computed."""
    window: int
    """The length of the window in events."""
    events: int
    """The number of all events so far."""
    tested: int
    """The number of events that were ranked before they were learned."""
    sampled: float | None
    """The share of the window's events that were ranked."""
    new_users: float | None
    """The share of the window's events that were the first of their user."""
    new_items: float | None
    """The share of the window's events that were the first choice of their item."""
    methods: dict[str, MethodMetrics]


class LiveEvaluation:
    """Metrics of ranks before learning, over a moving window of the last `window` events, beside popularity baselines.

    The counts of the baselines are determined by the log alone. The window is not: only events for which there was time are
    ranked.
    """

    def __init__(self, top: int = 10, window: int = 3000) -> None:
        self.top, self.window = top, window
        self.events = 0
        self.tested = 0
        self._rows = 0  # events that the window has seen
        self.alarms: list[int] = []
        """The numbers of the events at which the drift test raised an alarm."""
        self._drift_test = PageHinkley()
        self._popularity, self._recent = Popularity(), DecayedPopularity(HALF_LIFE)
        self._arrival: Longs = np.zeros(0, np.int64)  # by slot, the arrival number of the counted item
        # Ring buffers with a row per event: the rank by each method, negative where it was not ranked, and the candidates.
        self._ranks: Doubles = np.full((window, len(METHODS)), -1.0)
        self._candidates = np.zeros(window, np.int64)
        self._new = np.zeros((window, 2), np.bool_)  # user, item

    def test(self, recommender: Recommender, event: Event) -> list[Rank] | None:
        """Return the rank of the item of an event by each method before the event is learned.

        Return None for an item that is not in the catalogue, and for a kind of feedback that is no target, such as a view or
        a dislike.
        """
        if not recommender.has_item(event.item) or not recommender.schema.effect_of(event.kind).is_target:
            return None
        arrival = recommender.engine.arrivals_by_place()
        self._grow(len(arrival))
        ranks = [recommender.rank(event.user, event.item, context=event.context, time=event.time)]
        same = self._arrival[: len(arrival)] == arrival
        popularity = np.where(same, self._popularity.scores(_NOTHING), 0.0)
        recent = np.where(same, self._recent.scores(_NOTHING), NEVER)
        return ranks + recommender.serving.rank_by(event.user, event.item, popularity, recent, time=event.time)

    def note(self, new_user: bool, place: Place, ranks: list[Rank] | None, counted: bool = True) -> None:
        """Note an event that was learned: move the window on, and let the baselines count it if `counted` is set.

        `ranks` are those that `test` returned, or None where the event was not ranked.
        """
        row = self._rows % self.window
        self._new[row] = new_user, self._learn(place, counted)
        self._ranks[row] = -1.0 if ranks is None else [rank.position for rank in ranks]
        self._candidates[row] = 0 if ranks is None else ranks[0].candidates
        self.events += 1
        self._rows += 1
        if ranks is not None and self._drift_test.update(100 * ranks[0].position / max(ranks[0].candidates - 1, 1)):
            self.alarms.append(self.events)
            del self.alarms[:-MOST_ALARMS]
        self.tested += ranks is not None

    def note_unranked(
        self, new_users: Sequence[bool], places: Sequence[Place], counted: Sequence[bool] | None = None
    ) -> None:
        """Note several learned events that were not ranked, in order, as `note` would do one by one."""
        rows = (self._rows + np.arange(len(places))) % self.window
        counts = [True] * len(places) if counted is None else counted
        new_items = np.array([self._learn(*one) for one in zip(places, counts, strict=True)], np.bool_)
        last = slice(max(0, len(places) - self.window), None)  # of events that share a row, the last one is kept
        self._new[rows[last], 0], self._new[rows[last], 1] = np.asarray(new_users)[last], new_items[last]
        self._ranks[rows[last]], self._candidates[rows[last]] = -1.0, 0
        self.events += len(places)
        self._rows += len(places)

    def _learn(self, place: Place, counted: bool) -> bool:
        """Let the baselines learn an event of an item, and return whether the item was chosen for the first time."""
        number, arrival = place
        self._grow(number + 1)
        if self._arrival[number] != arrival:
            self._popularity.forget(number)
            self._recent.forget(number)
            self._arrival[number] = arrival
        first = bool(self._popularity.scores(_NOTHING)[number] == 0)
        if counted:
            self._popularity.learn(_NOTHING, number)
            self._recent.learn(_NOTHING, number)
        else:
            self._recent.pass_by()
        return first and counted

    def choices(self, place: Place) -> int:
        """Return how often an item was chosen since it was added."""
        number, counts = place.number, self._popularity.scores(_NOTHING)
        return int(counts[number]) if number < len(counts) and self._arrival[number] == place.arrival else 0

    def metrics(self) -> LiveMetrics:
        """Return the metrics of all methods over the window."""
        filled = min(self._rows, self.window)
        ranks, new = self._ranks[:filled], self._new[:filled]
        tested = ranks[:, 0] >= 0
        candidates = self._candidates[:filled][tested]
        return LiveMetrics(
            top=self.top,
            window=self.window,
            events=self.events,
            tested=self.tested,
            sampled=_share(tested),
            new_users=_share(new[:, 0]),
            new_items=_share(new[:, 1]),
            methods={name: self._method_metrics(ranks[tested, n], candidates) for n, name in enumerate(METHODS)},
        )

    def _method_metrics(self, rank: Doubles, candidates: NDArray[np.int64]) -> MethodMetrics:
        return MethodMetrics(_share(hits(rank, self.top)), _share(percentiles(rank, candidates)))

    def _grow(self, places: int) -> None:
        places = max(places, len(self._popularity.scores(_NOTHING)))
        self._popularity.grow(places)
        self._recent.grow(places)
        self._arrival = grown(self._arrival, places, -1)

    def resized(self, top: int, window: int) -> "LiveEvaluation":
        """Return an evaluation with other sizes and the same baselines. Its window is empty unless the sizes are equal."""
        if (top, window) == (self.top, self.window):
            return self
        other = LiveEvaluation(top, window)
        other.events, other.tested, other.alarms, other._drift_test = self.events, self.tested, self.alarms, self._drift_test
        other._popularity, other._recent, other._arrival = self._popularity, self._recent, self._arrival
        return other

    # State

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the whole state as a JSON document and named arrays."""
        document: dict[str, Any] = {
            "top": self.top,
            "window": self.window,
            "events": self.events,
            "tested": self.tested,
            "rows": self._rows,
        }
        document |= {"alarms": list(self.alarms), "drift": self._drift_test.state()}
        arrays = {
            "popularity": self._popularity.scores(_NOTHING).copy(),
            "recent": self._recent.scores(_NOTHING).copy(),
            "arrival": self._arrival[: len(self._popularity.scores(_NOTHING))].copy(),
            "ranks": self._ranks.copy(),
            "candidates": self._candidates.copy(),
            "new": self._new.copy(),
        }
        return document, arrays

    @classmethod
    def from_state(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "LiveEvaluation":
        """Restore an evaluation from what `state` returned. Raises `ValueError` where the arrays do not fit together."""
        restored = cls(document["top"], document["window"])
        restored.events, restored.tested, restored._rows = document["events"], document["tested"], document["rows"]
        restored.alarms, restored._drift_test = list(document["alarms"]), PageHinkley.from_state(document["drift"])
        restored._popularity.restore(arrays["popularity"])
        restored._recent.restore(arrays["recent"], document["events"])
        restored._arrival = arrays["arrival"].copy()
        if restored._arrival.dtype != np.int64 or not len(arrays["popularity"]) == len(arrays["recent"]) == len(
            arrays["arrival"]
        ):
            raise ValueError("the shadows have not the same items")
        for name, own in (("ranks", restored._ranks), ("candidates", restored._candidates), ("new", restored._new)):
            if arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
                raise ValueError(f"{name} has type {arrays[name].dtype} and shape {arrays[name].shape}")
            own[:] = arrays[name]
        return restored


def _share(values: NDArray[Any]) -> float | None:
    return mean(values) if len(values) else None
