"""Prometheus metrics of a source."""

import asyncio

from prometheus_client import CollectorRegistry, Counter, Gauge

from coldstream.ingest.ingestion import Counts
from coldstream.ingest.source import Source

_LOOK = 5.0
"""Seconds between two measurements of the lag."""


class IngestMetrics:
    """The counters of one source in a registry, and its lag while `look` runs."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        labels, self._name = ("source",), name
        learned = Counter("coldstream_ingest_learned", "Messages that were learned.", labels, registry=registry)
        again = Counter("coldstream_ingest_duplicates", "Messages that had been learned before.", labels, registry=registry)
        dead = Counter("coldstream_ingest_dead", "Messages that could not be learned.", labels, registry=registry)
        self._counters = [counter.labels(name) for counter in (learned, again, dead)]
        self._lag = Gauge(
            "coldstream_ingest_lag_messages", "Messages that are there and not learned.", labels, registry=registry
        )

    def count(self, more: Counts) -> None:
        """Add to the counters."""
        for counter, number in zip(self._counters, more, strict=True):
            counter.inc(number)

    async def look(self, source: Source) -> None:
        """Measure the lag periodically until cancelled; the lag is removed from the metrics then."""
        try:
            while True:
                await asyncio.sleep(_LOOK)
                try:
                    waiting = await source.lag()
                except Exception:  # the source is not open yet, or is closed  # noqa: S112
                    continue
                if waiting is not None:
                    self._lag.labels(self._name).set(waiting)
        finally:
            self._lag.clear()
