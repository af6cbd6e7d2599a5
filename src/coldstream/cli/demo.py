"""`coldstream demo`: a real service on a real port, with a simulated audience."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, Any

from coldstream.cli.children import Stopped, end_child, start_child, stoppable
from coldstream.cli.numbers import whole
from coldstream.demo.audience import Audience, patient_client
from coldstream.demo.scenarios import SCENARIOS, Scenario
from coldstream.errors import ColdstreamError, Unavailable
from coldstream.service.messages.core import EvaluationResponse

HOST = "127.0.0.1"


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    known = "\n".join(f"  {name:12}{scenario.about}" for name, scenario in SCENARIOS.items())
    parser = commands.add_parser(
        "demo",
        description="Starts the service and an audience. Ctrl-C stops both; starting again goes on where it was.",
        epilog=f"scenarios:\n{known}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scenario", choices=SCENARIOS, default="clicks", help="see below (clicks)")
    parser.add_argument("--speed", type=whole, default=60, metavar="N", help="choices per second (60)")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="of the page and the service (8000)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where it is kept (coldstream-demo/SCENARIO)")
    parser.add_argument("--headless", action="store_true", help="no page: a bounded number of events, and a table")
    parser.add_argument("--events", type=whole, default=5000, metavar="N", help="of --headless (5000)")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    scenario: Scenario = SCENARIOS[args.scenario]
    try:
        with stoppable():
            return _headless(args, scenario) if args.headless else _watch(args, scenario)
    except Stopped as stopped:
        return stopped.status


def _watch(args: argparse.Namespace, scenario: Scenario) -> int:
    data = args.data or Path("coldstream-demo") / args.scenario
    print(f"{args.scenario}: {scenario.about}\nstarting; the very first start compiles for up to a minute", flush=True)
    evaluated = ("--evaluate-top", scenario.top, "--evaluate-window", scenario.window)
    with _served(scenario, data, args.port, *evaluated) as (server, port):
        print(f"\n  watch it learn:  http://{HOST}:{port}/\n", flush=True)
        print(f"Ctrl-C stops it; starting again goes on where it was. It is kept in {data}", flush=True)
        command = (sys.executable, "-m", "coldstream.demo", HOST, str(port), args.scenario, str(args.speed))
        audience = start_child(command)
        try:
            if server.wait():
                raise Unavailable(f"the service has ended; {data / 'service.log'} says more, and starting again goes on")
        except KeyboardInterrupt:
            print("\nstopping", flush=True)
        finally:
            end_child(audience)
    return 0


def _headless(args: argparse.Namespace, scenario: Scenario) -> int:
    with tempfile.TemporaryDirectory(prefix="coldstream-demo-") as temporary:
        evaluated = ("--evaluate-top", scenario.top, "--evaluate-window", args.events, "--evaluate-share", 1.0)
        data = args.data or Path(temporary) / "data"
        with _served(scenario, data, 0, *evaluated) as (_, port), patient_client(HOST, port) as client:
            Audience(client, args.scenario, 0.0).run(scenario.events(), args.events)
            _show(args.scenario, client.evaluation())
    return 0


def _show(name: str, evaluation: EvaluationResponse) -> None:
    print(f"{name}: {evaluation.events:,} events, {evaluation.tested:,} ranked before they were learned")
    print(f"new users {_number(evaluation.new_users, '.0%')}, new items {_number(evaluation.new_items, '.1%')}\n")
    print(f"{'method':<20}{'recall@' + str(evaluation.top):>10}{'MPR %':>10}")
    for method, own in evaluation.methods.items():
        print(f"{method.replace('_', ' '):<20}{_number(own.recall, '.3f'):>10}{_number(own.mpr, '.2f'):>10}")


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)  # no value exists before the first event is tested


@contextmanager
def _served(scenario: Scenario, data: Path, port: int, *flags: object) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Start a server on a folder and yield it with its port; stop it gracefully after the block."""
    data.mkdir(parents=True, exist_ok=True)
    schema = data / "schema.toml"
    if not schema.exists():
        schema.write_text(scenario.schema().toml(), encoding="utf-8")
    arguments = ("--schema", schema, "--data", data, "--port", port, *flags)
    command = [sys.executable, "-m", "coldstream", "serve", *map(str, arguments)]
    server = start_child(command, stderr=subprocess.PIPE)
    assert server.stderr is not None
    # The service compiles its learning kernels first. Meanwhile another process compiles the reading kernels into the cache.
    compiler = start_child((sys.executable, "-c", "from coldstream.cli.compile import compile_reading; compile_reading()"))
    with server, server.stderr, compiler:
        try:
            port = _port_in(server.stderr)
            # The pipe must be drained, or the server blocks when it is full.
            reader = Thread(target=_keep, args=(server.stderr, data / "service.log"))
            reader.start()
            try:
                yield server, port
            finally:
                end_child(server)
                reader.join()
        finally:
            end_child(compiler)
            end_child(server)


def _port_in(log: IO[str]) -> int:
    """Return the port that a server's log says it listens on; raises the server's own error message if it did not start."""
    for text in log:
        if not text.startswith("{"):
            raise ColdstreamError(text.strip().removeprefix("coldstream: "))
        entry = json.loads(text)
        if entry["event"] == "listening":
            return int(entry["address"].rpartition(":")[2])
    raise Unavailable("the service did not start; run `coldstream serve` to see why")


def _keep(log: IO[str], path: Path) -> None:
    with path.open("a", encoding="utf-8") as kept:
        kept.writelines(log)
