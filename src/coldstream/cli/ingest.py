"""`coldstream ingest`: learn events from a message broker or an outbox table."""

import argparse
import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from coldstream.cli.numbers import whole
from coldstream.cli.running_service import KEY
from coldstream.client import AsyncClient
from coldstream.errors import InvalidInput
from coldstream.ingest.ingestion import DeadLetters, Ingestion
from coldstream.ingest.metrics import IngestMetrics
from coldstream.ingest.source import Source, source_of
from coldstream.service.http.logs import log_to_stderr

log = logging.getLogger(__name__)


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
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
        help=f"the service (http://127.0.0.1:8000); ${KEY} is its key",
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
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="where Prometheus may ask, on loopback; 0 is any that is free, and nowhere, if left out",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    source, dead = source_of(args.source), DeadLetters(args.dead)
    dead.check()
    log_to_stderr("info")
    asyncio.run(_ingest(source, dead, args))
    return 0


async def _ingest(source: Source, dead: DeadLetters, args: argparse.Namespace) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    registry = CollectorRegistry()
    metrics = IngestMetrics(registry, source.name)
    if args.metrics_port is not None:
        _tell(registry, args.metrics_port)
    async with AsyncClient(args.to, key=os.environ.get(KEY)) as client:
        ingestion = Ingestion(source, client, dead, min(args.batch, 1000), metrics.count)
        looking = asyncio.create_task(metrics.look(source))
        try:
            await ingestion.run(stop)
        finally:
            looking.cancel()


def _tell(registry: CollectorRegistry, port: int) -> None:
    """Serve metrics to Prometheus on a port of the loopback interface."""
    try:
        server, _ = start_http_server(port, "127.0.0.1", registry)
    except (OSError, OverflowError) as error:
        raise InvalidInput(
            f"--metrics-port {port}: cannot listen there ({error}); choose another, or leave it out"
        ) from error
    log.info("metrics", extra={"address": f"http://127.0.0.1:{server.server_port}/metrics"})
