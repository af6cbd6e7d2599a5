"""What Prometheus is told of a source."""

import asyncio

from prometheus_client import CollectorRegistry, Counter, Gauge

from coldstream.ingest.ingestion import Counts
from coldstream.ingest.source import Source

_LOOK = 5.0
"""Seconds between two looks at the lag."""


class IngestMetrics:
    """The counts of one source, in a registry; its lag while somebody looks at it."""

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
        """Tell what has happened."""
        for counter, number in zip(self._counters, more, strict=True):
            counter.inc(number)

    async def look(self, source: Source) -> None:
        """Now and then, how much is waiting; nothing is said of it once this was cancelled."""
        try:
            while True:
                await asyncio.sleep(_LOOK)
                try:
                    waiting = await source.lag()
                except Exception:  # it is not open yet, or not any more  # noqa: S112
                    continue
                if waiting is not None:
                    self._lag.labels(self._name).set(waiting)
        finally:
            self._lag.clear()
