"""`coldstream ingest`: events from a broker or an outbox."""

import argparse
import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from coldstream.cli.numbers import whole
from coldstream.client import AsyncClient
from coldstream.ingest.ingestion import Counts, DeadLetters, Ingestion
from coldstream.ingest.source import Source, source_of
from coldstream.service.logs import log_to_stderr

_LOOK = 5.0
"""Seconds between two looks at the lag."""


def add_to(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "ingest",
        description="Reads events as JSON from NATS JetStream, Kafka or an outbox; the service learns each once.",
        epilog="nats://host:4222/STREAM, kafka://host:9092/topic, postgresql://host/database?table=coldstream_outbox",
    )
    parser.add_argument("--from", required=True, dest="source", metavar="URL", help="where the messages are")
    parser.add_argument(
        "--to",
        default="http://127.0.0.1:8000",
        metavar="URL",
        help="the service (http://127.0.0.1:8000); $COLDSTREAM_KEY is its key",
    )
    parser.add_argument(
        "--dead",
        type=Path,
        default=Path("dead-letters.jsonl"),
        metavar="FILE",
        help="where messages go that cannot be learned, with the reason",
    )
    parser.add_argument("--batch", type=whole, default=500, metavar="N", help="messages in one call at most (500)")
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="where Prometheus may ask, on loopback; nowhere, if left out"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    log_to_stderr("info")
    source = source_of(args.source)
    asyncio.run(_ingest(source, args))
    return 0


async def _ingest(source: Source, args: argparse.Namespace) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    metrics = _Metrics(source.name)
    if args.metrics_port is not None:
        start_http_server(args.metrics_port, "127.0.0.1", metrics.registry)
    async with AsyncClient(args.to, key=os.environ.get("COLDSTREAM_KEY")) as client:
        ingestion = Ingestion(source, client, DeadLetters(args.dead), min(args.batch, 1000), metrics.count)
        looking = asyncio.create_task(metrics.look(source))
        try:
            await ingestion.run(stop)
        finally:
            looking.cancel()


class _Metrics:
    """What Prometheus may ask."""

    def __init__(self, name: str) -> None:
        self.registry = CollectorRegistry()
        labels = ("source",)
        self._learned = Counter(
            "coldstream_ingest_learned", "Messages that were learned.", labels, registry=self.registry
        ).labels(name)
        self._again = Counter(
            "coldstream_ingest_duplicates", "Messages that had been learned before.", labels, registry=self.registry
        ).labels(name)
        self._dead = Counter(
            "coldstream_ingest_dead", "Messages that could not be learned.", labels, registry=self.registry
        ).labels(name)
        self._lag = Gauge(
            "coldstream_ingest_lag_messages", "Messages that are there and not learned.", labels, registry=self.registry
        ).labels(name)
        self._before = Counts()

    def count(self, counts: Counts) -> None:
        """Tell what has happened since the last time."""
        for counter, name in ((self._learned, "learned"), (self._again, "duplicates"), (self._dead, "dead")):
            counter.inc(getattr(counts, name) - getattr(self._before, name))
        self._before = counts

    async def look(self, source: Source) -> None:
        """Now and then, how much is waiting."""
        while True:
            await asyncio.sleep(_LOOK)
            try:
                waiting = await source.lag()
            except Exception:  # it is not open yet, or not any more  # noqa: S112
                continue
            if waiting is not None:
                self._lag.set(waiting)
