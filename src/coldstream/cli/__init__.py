"""The command line interface: `coldstream demo`, `coldstream serve`, and the other commands in `COMMANDS`."""

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import NamedTuple

from coldstream import __version__
from coldstream.errors import ColdstreamError, MisreadFile

INTERRUPTED = 130
"""Exit status of a command interrupted with Ctrl-C, by shell convention."""


class Command(NamedTuple):
    """A command with its summary for `--help`, and the extra that installs its libraries."""

    extra: str
    summary: str
    module: str = ""
    """The module of the command in `coldstream.cli`, if its name differs from the command's."""


COMMANDS: Mapping[str, Command] = {
    "demo": Command("service", "watch it learn: the service, a simulated audience, and a live page"),
    "serve": Command("service", "the service: recommend, observe, learn over HTTP"),
    "compile": Command("service", "compile all kernels now, so that the first start takes seconds"),
    "verify": Command("service", "replay a service's log and compare it with its snapshots"),
    "backup": Command("service", "one file with all that a service holds, while it runs"),
    "restore": Command("service", "make a store from such a file"),
    "import": Command("client,evaluation", "events, items and users from files into a running service", "import_files"),
    "export": Command("evaluation,service", "events, items and users of a service as Parquet or JSON-lines", "export_files"),
    "ingest": Command("ingest", "events from NATS, Kafka or an outbox, each learned once"),
    "keys": Command("service", "the API keys of the service: add one, list them, remove one"),
    "datasets": Command("evaluation", "the data sets known by name: list them, find them, fetch them"),
    "evaluate": Command("evaluation", "any methods on any stream: test, then learn"),
    "paper": Command("evaluation", "the paper's experiment: 4 methods, 2 data sets, 5 trials, beside what was published"),
    "tune": Command("evaluation", "search hyperparameters on the first 30 %% of a stream, and print the best as TOML"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        args = _parser(given).parse_args(given)
        return int(args.run(args))
    except ColdstreamError as error:
        print(f"coldstream: {_worded(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("coldstream: interrupted; no file was left half-written", file=sys.stderr)
        return INTERRUPTED


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coldstream", description="An online, context-aware item recommender that learns from every interaction."
    )
    parser.add_argument("--version", action="version", version=f"coldstream {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    name = given[0] if given else ""
    if name not in COMMANDS:
        # Only summaries are listed: loading the libraries of all commands takes a second, or fails where some are not
        # installed.
        for other, command in COMMANDS.items():
            commands.add_parser(other, help=command.summary)
        return parser
    try:
        importlib.import_module(f"coldstream.cli.{COMMANDS[name].module or name}").add_to(commands)
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed; `coldstream {name}` needs it"
        raise ColdstreamError(f"{message}: pip install 'coldstream[{COMMANDS[name].extra}]'") from error
    return parser


def _worded(error: ColdstreamError) -> str:
    """Return an error's message for the command line, with an option where it names a Python argument."""
    if isinstance(error, MisreadFile):
        option = (
            f"--column {error.value}=NAME" if error.argument == "columns" else f"--{error.argument} {quote(error.value)}"
        )
        return f"{error.problem}; {error.advice} with {option}"
    return str(error)
