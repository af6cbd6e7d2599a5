"""`coldstream import`: import events, items and users from files into a service or a store. An import can be resumed."""

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from coldstream.cli.options import add_dialect, role_of
from coldstream.cli.refusals import Refusals
from coldstream.cli.running_service import KEY, RunningService
from coldstream.cli.screen import trials_bar
from coldstream.errors import InvalidInput
from coldstream.events.readers import AttributeRow, EventRow, read_attributes, read_events
from coldstream.events.row_ids import row_ids
from coldstream.service.messages.core import LinesTaken

URL = "http://127.0.0.1:8000"
TOGETHER = 5000
"""Number of lines sent per request."""
AVAILABILITY = ("available_from", "available_until", "hidden")
"""Columns of item files that set availability and are not attributes."""


class Destination(Protocol):
    """The destination of an import: a running service, or a store."""

    def sets(self) -> Mapping[str, Collection[str]]:
        """Return the names of the fields with list values, by side; empty if they are unknown."""

    def take(self, role: str, records: Sequence[Mapping[str, Any]], /) -> LinesTaken:
        """Write events, items or users, each of which is accepted or refused on its own."""

    def close(self) -> None:
        """Release the connection or the store."""


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser(
        "import",
        description="Sends files (CSV, TSV, Parquet, JSON-lines) to a running service, or writes them to a store that none "
        "runs on: items and users first, then events in the order of their time. Events have ids: what was stopped can be "
        "started again, and nothing is learned twice. Where events have times, rows may be added to a file, or mended, too.",
    )
    parser.add_argument("--url", metavar="URL", help=f"of the service ({URL}); a key in ${KEY}")
    parser.add_argument("--data", type=Path, metavar="DIR", help="instead: the folder of a store that no service runs on")
    parser.add_argument("--store", metavar="URL", help="instead: its database, postgresql://…")
    parser.add_argument("--schema", type=Path, metavar="FILE.toml", help="with --data or --store: of a store that is new")
    parser.add_argument(
        "--events", type=Path, metavar="FILE", help="columns user, item, and time, kind, event_id if there are any"
    )
    parser.add_argument("--items", type=Path, metavar="FILE", help="a column item or id, and attributes")
    parser.add_argument("--users", type=Path, metavar="FILE", help="a column user or id, and attributes")
    parser.add_argument(
        "--column", action="append", default=[], metavar="ROLE=NAME", help="what the files call user, item, …"
    )
    parser.add_argument("--ignore", action="append", default=[], metavar="NAME", help="a column that is not to be read")
    parser.add_argument(
        "--list",
        action="append",
        default=[],
        metavar="NAME",
        help='a column of lists, separated by "|" (sets of the schema)',
    )
    add_dialect(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.events is None and args.items is None and args.users is None:
        raise InvalidInput("give at least one of --events, --items and --users")
    _check_place(args)
    files = _files(args, dict(map(role_of, args.column)))  # read first, so that an unreadable file stops the import early
    with closing(_destination(args)) as destination:
        done = [_sent(destination, file) for file in _split(files, destination.sets())]
    return 0 if all(done) else 1


def _check_place(args: argparse.Namespace) -> None:
    given = [name for name in ("url", "data", "store") if getattr(args, name) is not None]
    if len(given) > 1:
        raise InvalidInput(f"--{given[0]} is given, and --{given[1]} too; give one of --url, --data and --store")
    if args.schema is not None and given in ([], ["url"]):
        raise InvalidInput(f"--schema is for a store, got {str(args.schema)!r}; give --data DIR with it, or leave it out")


def _destination(args: argparse.Namespace) -> Destination:
    if args.data is None and args.store is None:
        return RunningService(args.url or URL)
    from coldstream.cli.idle_store import IdleStore  # sending to a service does not need the service's libraries

    return IdleStore(args.store or f"sqlite:{args.data}", args.schema)


class _File(NamedTuple):
    role: str
    """The kind of records: `event`, `item` or `user`."""
    path: Path
    read: Callable[..., list[Any]]
    """Reads the rows; its argument `lists` names the columns to split into lists."""
    lists: Collection[str]
    rows: list[Any]


def _files(args: argparse.Namespace, columns: dict[str, str]) -> list[_File]:
    """Read the given files, items and users first."""
    written = {"columns": columns, "ignore": args.ignore, "separator": args.separator, "encoding": args.encoding}
    readers: list[tuple[str, Path | None, Callable[..., list[Any]]]] = [
        ("item", args.items, partial(read_attributes, args.items, "item", **written)),
        ("user", args.users, partial(read_attributes, args.users, "user", **written)),
        ("event", args.events, partial(read_events, args.events, **written)),
    ]
    return [_File(role, path, read, args.list, read(lists=args.list)) for role, path, read in readers if path is not None]


def _split(files: Iterable[_File], sets: Mapping[str, Collection[str]]) -> Iterator[_File]:
    """Yield the files, with columns that the schema declares as sets split into lists."""
    for file in files:
        names = set(sets.get("context" if file.role == "event" else file.role, ())) - set(file.lists)
        texts = {
            name
            for row in file.rows
            for name in names & _attributes(row).keys()
            if not isinstance(_attributes(row)[name], list)
        }
        # The file is read again, because a numeric column is read as texts only if it is declared to have lists.
        yield file._replace(rows=file.read(lists=[*file.lists, *texts])) if texts else file


def _attributes(row: EventRow | AttributeRow) -> Mapping[str, Any]:
    return row.event.context if isinstance(row, EventRow) else row.attributes


def _records(file: _File) -> Iterator[dict[str, Any]]:
    """Return an iterator over the rows as JSON records of the service."""
    if file.role == "event":
        return _events(file.path, file.rows)
    return (_put(file.role, row.name, row.attributes) for row in file.rows)


def _put(role: str, name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    own = {column: attributes.pop(column) for column in AVAILABILITY if role == "item" and column in attributes}
    return {"id": name, "attributes": attributes, **own}


def _events(path: Path, rows: Sequence[EventRow]) -> Iterator[dict[str, Any]]:
    """Yield events with their id from the file, or with an id derived from their content."""
    file = blake2b(path.read_bytes(), digest_size=9).hexdigest()
    for (_, event, given), made in zip(rows, row_ids((row.event for row in rows), file), strict=True):
        own: dict[str, Any] = {"user": event.user, "item": event.item, "event_id": given or made}
        own |= {} if event.time is None else {"time": event.time}
        own |= {"context": dict(event.context)} if event.context else {}
        yield own | ({} if event.kind is None else {"kind": event.kind})


def _sent(destination: Destination, file: _File) -> bool:
    """Send a file in batches and print a summary; return True if it had rows and none was refused."""
    if not file.rows:
        print(f"{file.path}: there are no rows in it; give a file that has some", file=sys.stderr)
        return False
    taken = duplicates = refused = done = 0
    refusals = Refusals()
    try:
        with trials_bar(str(file.path), len(file.rows)) as advance:
            waiting = _records(file)
            while records := list(islice(waiting, TOGETHER)):
                answer = destination.take(file.role, records)
                taken, duplicates = taken + answer.taken, duplicates + answer.duplicates
                for one in answer.refusals:
                    refusals.note(file.rows[done + one.line - 1].number, one.detail)
                refused, done = refused + answer.refused, done + len(records)
                advance(0, done)
    finally:
        for line in refusals.told(file.path):
            print(line, file=sys.stderr)
    print(f"{file.path}: {taken:,} taken, {duplicates:,} were there, {refused:,} refused")
    if refused:
        print(f"{file.path}: {_remedy(file)}", file=sys.stderr)
    return not refused


def _remedy(file: _File) -> str:
    """Return the instructions for importing refused rows after they are corrected."""
    if file.role != "event" or all(row.given or row.event.time is not None for row in file.rows):
        return "mend these rows and import the file again; nothing is learned twice"
    return "its events have no time, and would all be learned again; mend these rows, and import them in a file of their own"
