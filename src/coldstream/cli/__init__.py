"""The command line: `coldstream demo | serve | verify | keys | datasets | evaluate | paper | tune`."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version

from coldstream.errors import ColdstreamError

INTERRUPTED = 130
"""What a shell expects of a command that was stopped with Ctrl-C."""


EXTRA_OF = {
    "demo": "service",
    "serve": "service",
    "verify": "service",
    "keys": "service",
    "datasets": "evaluation",
    "evaluate": "evaluation",
    "paper": "evaluation",
    "tune": "evaluation",
}
"""The commands, and the extra that brings the libraries of each."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        args = _parser(given).parse_args(given)
        return int(args.run(args))
    except ColdstreamError as error:
        print(f"coldstream: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("coldstream: interrupted; no file was left half-written", file=sys.stderr)
        return INTERRUPTED


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coldstream", description="An online, context-aware item recommender that learns from every interaction."
    )
    parser.add_argument("--version", action="version", version=f"coldstream {version('coldstream')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    # Others than the one that was asked for bring libraries that take a second to load, or are not installed.
    wanted = [name for name in EXTRA_OF if name in given[:1]] or list(EXTRA_OF)
    for name in wanted:
        try:
            importlib.import_module(f"coldstream.cli.{name}").add_to(commands)
        except ModuleNotFoundError as error:
            message = f"{error.name} is not installed; `coldstream {name}` needs it"
            raise ColdstreamError(f"{message}: pip install 'coldstream[{EXTRA_OF[name]}]'") from error
    return parser
