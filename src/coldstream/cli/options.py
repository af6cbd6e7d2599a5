"""Options shared by several commands."""

import argparse
import os
from pathlib import Path
from typing import Any

from coldstream.cli.numbers import seed, whole
from coldstream.errors import InvalidInput
from coldstream.evaluation.workload import Files, Known, Source
from coldstream.events.datasets import DATASETS
from coldstream.events.readers import ROLES


def add_stream(parser: argparse.ArgumentParser) -> None:
    """Add the options that select the event stream: a data set by name, or files."""
    names = ", ".join(DATASETS)
    parser.add_argument("dataset", nargs="?", metavar="DATASET", help=f"a data set by its name: {names}")
    own = parser.add_argument_group("your own stream, instead of a data set (CSV, TSV, Parquet or JSON-lines)")
    own.add_argument("--events", type=Path, metavar="FILE", help="events: columns user, item, and if there is one time")
    own.add_argument("--users", type=Path, metavar="FILE", help="a table of users and their attributes")
    own.add_argument("--items", type=Path, metavar="FILE", help="a table of items and their attributes")
    own.add_argument("--schema", type=Path, metavar="FILE.toml", help="the schema; inferred from the columns if left out")
    own.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="ROLE=NAME",
        help="what the files call user, item or time, or which column has the kind of events: user=user_id",
    )
    own.add_argument("--ignore", action="append", default=[], metavar="NAME", help="a column that is not to be read")
    own.add_argument("--list", action="append", default=[], metavar="NAME", help='a column of lists, separated by "|"')
    own.add_argument("--at-least", metavar="NAME=NUMBER", help="keep the events with so much of a column: rating=4")
    add_dialect(own)
    own.add_argument(
        "--repeats",
        action=argparse.BooleanOptionalAction,
        help="whether users choose the same items again, which then stay candidates; found out if left out",
    )
    parser.add_argument("--data-seed", type=seed, default=0, metavar="N", help="of a data set that is generated (0)")


def add_dialect(parser: Any) -> None:
    """Add the options for the column separator and the encoding of text files."""
    parser.add_argument("--separator", metavar="X", help="what separates columns in CSV: one character, or tab (found out)")
    parser.add_argument("--encoding", metavar="NAME", help="of CSV and JSON-lines: cp1252, utf-16, … (utf-8)")


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option for the number of processes."""
    parser.add_argument("--jobs", type=whole, default=os.cpu_count() or 1, metavar="N", help="processes (one per core)")


def source_of(args: argparse.Namespace) -> Source:
    """Return the event stream that the options select."""
    if (args.dataset is None) == (args.events is None):
        raise InvalidInput("give either the name of a data set or --events FILE")
    if args.dataset is not None:
        _refuse_own(args)
        if args.dataset not in DATASETS:
            raise InvalidInput(f"data set must be one of {', '.join(DATASETS)}, got {args.dataset!r}; or use --events FILE")
        return Known(args.dataset, args.data_seed)
    return Files(
        args.events,
        args.users,
        args.items,
        args.schema,
        tuple(map(role_of, args.column)),
        tuple(args.ignore),
        tuple(args.list),
        None if args.at_least is None else _threshold(args.at_least),
        args.repeats,
        args.separator,
        args.encoding,
    )


def _refuse_own(args: argparse.Namespace) -> None:
    """Raise `InvalidInput` for options about own files that are given with a data set, where they would have no effect."""
    for name in ("users", "items", "schema", "column", "ignore", "list", "at_least", "repeats", "separator", "encoding"):
        if getattr(args, name) not in (None, []):
            raise InvalidInput(
                f"--{name.replace('_', '-')} is for your own files; leave it out with a data set, or use --events"
            )


def _pair(option: str, given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not (name and equals and value):
        raise InvalidInput(f"{option} must be NAME=VALUE, got {given!r}")
    return name, value


def role_of(given: str) -> tuple[str, str]:
    """Parse a `--column` value ROLE=NAME into the role and the column's name in the files."""
    role, name = _pair("--column", given)
    if role not in ROLES:
        raise InvalidInput(f"--column must be {', '.join(f'{known}=NAME' for known in ROLES)}, got {given!r}")
    return role, name


def _threshold(given: str) -> tuple[str, float]:
    name, value = _pair("--at-least", given)
    try:
        return name, float(value)
    except ValueError:
        raise InvalidInput(f"--at-least must be NAME=NUMBER, got {given!r}") from None
