"""Curves of the dashboard: a sample of the service's figures every second, sparser the older, and annotations."""

import logging
import math
import time
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from coldstream.service.messages.core import MethodMetrics
from coldstream.service.messages.live import Annotation, Sample

if TYPE_CHECKING:
    from coldstream.service.service import Service

log = logging.getLogger(__name__)

MOST_SAMPLES, MOST_ANNOTATIONS = 600, 100
"""Samples and annotations that are kept. Beyond that, every other of the older half of the samples is dropped."""
MOST_PENALTIES = 64
"""Fields whose regularization (λ) a sample holds: an open context can bring any number of fields."""
SECONDS_BETWEEN_ARRIVALS = 15
"""Least seconds between two annotations of new items; items that arrive in between share one."""


class _Curves(msgspec.Struct, frozen=True):
    """The curves as snapshots carry them, with the N and T of their recall@N/T."""

    top: int
    window: int
    samples: list[Sample]
    annotations: list[Annotation]


class LiveSamples:
    """Samples and annotations for the dashboard. Snapshots carry them, so that the curves survive a restart."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self.samples: list[Sample] = []
        self.annotations: list[Annotation] = []
        self._moment: float | None = None
        self._answered = 0
        self._alarms: int | None = None
        self._arrivals: int | None = None
        self._annotated = 0.0

    def sample(self) -> None:
        """Take a sample, and annotate drift and new items since the last one."""
        recommender, live = self._service.recommender, self._service.learner.evaluation.metrics()
        now, size, requests = time.monotonic(), recommender.size, self._service.metrics.of("POST", "/recommend")
        before = self.samples[-1] if self.samples else None
        # The first sample of a process has rates of 0: between it and a restored sample lies a replay, or a pause.
        elapsed, self._moment = math.inf if self._moment is None else max(now - self._moment, 1e-3), now
        answered, self._answered = requests.answered - self._answered, requests.answered
        p50, p99 = _quantiles(list(requests.recent))
        seq = max(int(time.time()), before.seq + 1 if before else 0)  # it must rise across restarts too
        self.samples.append(
            Sample(
                seq=seq,
                time=round(time.time(), 3),
                events=live.events,
                events_per_second=round((live.events - before.events) / elapsed, 2) if before else 0.0,
                recommendations_per_second=round(answered / elapsed, 2),
                p50_ms=p50,
                p99_ms=p99,
                features=size.features,
                new_features=size.features - self._features_before(live.events - live.window, size.features),
                sampled=_rounded(live.sampled),
                new_users=_rounded(live.new_users),
                new_items=_rounded(live.new_items),
                methods={name: MethodMetrics(_rounded(f.recall), _rounded(f.mpr)) for name, f in live.methods.items()},
                penalties=_finite(recommender.inspection.penalties()),
            )
        )
        self._annotate(seq, live.events, size.arrivals, now)
        if len(self.samples) > MOST_SAMPLES:
            del self.samples[1 : MOST_SAMPLES // 2 : 2]

    def encoded(self) -> str:
        """Return the curves as JSON, of bounded length, for a snapshot."""
        evaluation = self._service.learner.evaluation
        curves = _Curves(evaluation.top, evaluation.window, self.samples, self.annotations)
        return msgspec.json.encode(curves).decode()

    def restore(self, text: str) -> None:
        """Continue the curves of a snapshot, unless they cannot be read or are of another recall@N/T."""
        if not text:
            return
        try:
            curves = msgspec.json.decode(text, type=_Curves)
        except msgspec.DecodeError as error:
            log.warning("the curves of the page cannot be read, and begin anew", extra={"reason": str(error)})
            return
        evaluation = self._service.learner.evaluation
        if (curves.top, curves.window) == (evaluation.top, evaluation.window):
            self.samples, self.annotations = curves.samples[-MOST_SAMPLES:], curves.annotations[-MOST_ANNOTATIONS:]

    def _annotate(self, seq: int, events: int, arrivals: int, now: float) -> None:
        alarms = self._service.learner.evaluation.alarms
        if self._alarms is not None and len(alarms) > self._alarms:
            self.annotations.append(Annotation(seq, alarms[-1], "drift", "drift was noticed"))
        self._alarms = len(alarms)
        began = len(self.samples) < 2 or not self.samples[-2].events
        if self._arrivals is None or began:  # items put before the first event are no new arrivals
            self._arrivals = arrivals
        elif arrivals > self._arrivals and now - self._annotated >= SECONDS_BETWEEN_ARRIVALS:
            came = arrivals - self._arrivals
            self.annotations.append(Annotation(seq, events, "items", f"{came} new item{'s' * (came > 1)}"))
            self._arrivals, self._annotated = arrivals, now
        del self.annotations[:-MOST_ANNOTATIONS]

    def _features_before(self, events: int, now: int) -> int:
        """Return the number of features at the first sample with at least `events` events; `now` where there is none."""
        earlier = [sample.features for sample in self.samples if sample.events >= events]
        return earlier[0] if earlier else now


def _quantiles(seconds: list[float]) -> tuple[float | None, float | None]:
    if not seconds:
        return None, None
    p50, p99 = np.quantile(seconds, (0.5, 0.99))
    return round(1e3 * float(p50), 3), round(1e3 * float(p99), 3)


def _finite(penalties: Mapping[str, float]) -> dict[str, float]:
    some = islice(penalties.items(), MOST_PENALTIES)
    return {name: float(f"{value:.4g}") for name, value in some if math.isfinite(value)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
