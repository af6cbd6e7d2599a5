"""Metrics for Prometheus: requests are counted as they are answered, all else is read when it is scraped."""

from collections import deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from coldstream.engine.memory import Memory
from coldstream.runtime.replication.roles import Role
from coldstream.runtime.writing.writer import Writer

if TYPE_CHECKING:
    from coldstream.service.service import Service

disable_created_metrics()  # type: ignore[no-untyped-call]  # the time of a label's first use is of no use here

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class RouteMetrics:
    """Request counts and latencies of one route."""

    def __init__(self, requests: Counter, seconds: Histogram, route: tuple[str, str]) -> None:
        self._requests = {200: requests.labels(*route, "200")}
        self._all, self._route = requests, route
        self._seconds = seconds.labels(*route)
        self.answered = 0
        self.recent: deque[float] = deque(maxlen=1000)
        """Seconds that the last 1,000 answers took."""

    def observe(self, status: int, seconds: float) -> None:
        """Count a request that was answered, by its status and the seconds it took."""
        if status not in self._requests:
            self._requests[status] = self._all.labels(*self._route, str(status))
        self._requests[status].inc()
        self._seconds.observe(seconds)
        self.answered += 1
        self.recent.append(seconds)


class Metrics:
    """The metrics of one service, in a registry of their own: two services in one process do not share counts."""

    def __init__(self, service: "Service") -> None:
        self.registry = CollectorRegistry()
        """Registry of Prometheus, in which other components may register metrics too."""
        labels = ("method", "path")
        self._requests = Counter(
            "coldstream_requests", "Requests by call and status.", (*labels, "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "coldstream_request_seconds", "Seconds to answer.", labels, buckets=_BUCKETS, registry=self.registry
        )
        self._routes: dict[tuple[str, str], RouteMetrics] = {}
        self._turned_away = Counter(
            "coldstream_turned_away", "Connections that were not served, by reason.", ("reason",), registry=self.registry
        )
        self._connections = Gauge("coldstream_connections", "Connections that are open.", registry=self.registry)
        self.registry.register(_State(service))

    def of(self, method: str, path: str) -> RouteMetrics:
        """Return the metrics of a route, the same object at every call."""
        route = (method, path)
        if route not in self._routes:
            self._routes[route] = RouteMetrics(self._requests, self._seconds, route)
        return self._routes[route]

    def turned_away(self, reason: str) -> None:
        """Count a connection that was not served, by reason."""
        self._turned_away.labels(reason).inc()

    def watch(self, connections: Collection[object]) -> None:
        """Make the gauge of open connections the size of a collection."""
        self._connections.set_function(lambda: len(connections))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _State:
    """A collector of the gauges that are read from the service at each scrape."""

    def __init__(self, service: "Service") -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        service = self._service
        yield GaugeMetricFamily("coldstream_ready", "1 when the service answers.", float(service.ready))
        if not service.ready:
            return
        current, learner = service.current, service.learner
        known, live = learner.recommender, learner.evaluation.metrics()
        newest, lag = current.snapshots.newest, current.lag
        gauges: dict[str, tuple[str, float | None]] = {
            "log_position": ("The last line of the log that is learned.", learner.position),
            "renewed_position": (
                "The line at which taste had changed so much that AdaGrad's sums began anew; 0 for never.",
                learner.recommender.renewed_at or 0,
            ),
            "writer": ("1 in the process that writes, 0 in one that follows.", current.role is Role.WRITER),
            "lag_lines": ("Lines of the log that are not learned here yet, as far as is known.", lag.lines),
            "lag_seconds": ("For how long not everything was known here that there was; 0 where it is.", lag.seconds),
            "log_waiting": ("Records that were accepted and not learned yet.", current.waiting),
            "log_commits": ("Groups of records that were made durable since the start.", current.commits),
            "store_works": (
                "1 when the store did what was asked; after a failure, once it has written again.",
                current.store_works,
            ),
            "snapshot_position": (
                "The line of the log that the newest snapshot stands for.",
                newest.position if newest else 0,
            ),
            "snapshot_pause_seconds": ("How long the last snapshot held everybody up.", current.snapshots.pause),
            "shown_lost": ("Lists that were shown and could not be kept, since the start.", service.impressions.lost),
            "shown_bytes": ("About what lists that were shown take on disk.", service.impressions.bytes),
            "shown_foreign": (
                "Events that named a list which was shown to somebody else, and so count as if they named none.",
                service.impressions.foreign,
            ),
            "items": ("Items in the catalogue.", known.size.items),
            "users": ("Users that are known.", known.size.users),
            "features": ("Features that have a column.", known.size.features),
            "events": ("Events that were learned since the log began.", live.events),
            "tested": ("Events that were ranked before they were learned.", live.tested),
            "sampled_share": ("The share of the window's events that were ranked.", live.sampled),
            "new_user_share": ("The share of the window's events that were a user's first.", live.new_users),
            "new_item_share": ("The share of the window's events that were an item's first.", live.new_items),
        }
        if isinstance(current, Writer):
            gauges |= _upkeep(current)
        for name, (meaning, value) in gauges.items():
            if value is not None:
                yield GaugeMetricFamily(f"coldstream_{name}", meaning, float(value))
        yield from _memory(known.memory)
        recall = GaugeMetricFamily("coldstream_recall", f"recall@{live.top} in the window.", labels=("method",))
        mpr = GaugeMetricFamily("coldstream_mpr", "Mean percentile rank in the window.", labels=("method",))
        for method, own in live.methods.items():
            if own.recall is not None and own.mpr is not None:
                recall.add_metric((method,), own.recall)
                mpr.add_metric((method,), own.mpr)
        yield recall
        yield mpr


def _upkeep(writer: Writer) -> dict[str, tuple[str, float | None]]:
    """Return the gauges that only a writer has: pending erasures, compaction and size of the store."""
    return {
        "people_to_erase": (
            "People who are forgotten, and not yet erased from log, snapshots and lists that were shown.",
            len(writer.erasures.pending),
        ),
        "oldest_erasure_seconds": (
            "How long the first of them has been waiting; 0 where there are none.",
            writer.erasures.oldest_seconds,
        ),
        "log_cut": ("The last line of those that were deleted because they were old.", writer.compaction.cut),
        "store_bytes": ("About what log, snapshots and lists take, looked at once a minute.", writer.compaction.size),
    }


def _memory(memory: Memory) -> Iterator[Metric]:
    """Yield the gauges of memory: bytes in use by purpose, what was not admitted, and what was evicted or expired."""
    used = GaugeMetricFamily(
        "coldstream_memory_bytes", "What is learned and remembered, by what it is for, by our own costs.", labels=("part",)
    )
    for part, value in memory.parts.items():
        used.add_metric((part,), value)
    yield used
    if memory.bound is not None:
        yield GaugeMetricFamily("coldstream_memory_bound_bytes", "The most that all of it may weigh.", memory.bound)
    refused = GaugeMetricFamily("coldstream_refused", "What was new and was left out, by reason.", labels=("reason",))
    for reason, count in memory.refused.items():
        refused.add_metric((reason,), count)
    yield refused
    gone = GaugeMetricFamily("coldstream_gone", "What had to go to keep within bounds.", labels=("what",))
    for what, count in memory.gone.items():
        gone.add_metric((what,), count)
    yield gone
