"""`coldstream import`: events, items and users from files into a service, or a store. It can be stopped, and goes on."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from coldstream.cli.options import add_dialect, role_of
from coldstream.cli.screen import trials_bar
from coldstream.cli.service_client import KEY, ServiceClient
from coldstream.errors import InvalidInput, Unavailable
from coldstream.events.readers import read_attributes, read_events

URL = "http://127.0.0.1:8000"
TOGETHER = 5000
"""Lines in one request."""
MOST_SHOWN = 20
"""Refused rows that are shown."""
AVAILABILITY = ("available_from", "available_until", "hidden")
"""Columns of items that are no attributes."""


class Client(Protocol):
    """Whoever takes lines of JSON."""

    def send(self, path: str, body: bytes, /) -> tuple[int, Any]:
        """The status and the answer to them."""

    def close(self) -> None:
        """Give everything back."""


def add_to(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "import",
        description="Sends files (CSV, TSV, Parquet, JSON-lines) to a running service, or writes them to a store that none "
        "runs on: items and users first, then events in the order of their time. Events have ids: what was stopped can be "
        "started again, and nothing is learned twice.",
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
    parser.add_argument("--list", action="append", default=[], metavar="NAME", help='a column of lists, separated by "|"')
    add_dialect(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.events is None and args.items is None and args.users is None:
        raise InvalidInput("give at least one of --events, --items and --users")
    _check_place(args)
    files = list(_files(args, dict(map(role_of, args.column))))  # nothing is begun for files that cannot be read
    with closing(_client(args)) as client:
        refused = [_sent(client, *file) for file in files]
    return 1 if any(refused) else 0


def _check_place(args: argparse.Namespace) -> None:
    given = [name for name in ("url", "data", "store") if getattr(args, name) is not None]
    if len(given) > 1:
        raise InvalidInput(f"--{given[0]} is given, and --{given[1]} too; give one of --url, --data and --store")
    if args.schema is not None and given in ([], ["url"]):
        raise InvalidInput(f"--schema is for a store, got {str(args.schema)!r}; give --data DIR with it, or leave it out")


def _client(args: argparse.Namespace) -> Client:
    if args.data is None and args.store is None:
        return ServiceClient(args.url or URL, os.environ.get(KEY))
    from coldstream.cli.folder_client import FolderClient  # who only sends something need not have what serves

    return FolderClient(args.store or f"sqlite:{args.data}", args.schema)


class _File(NamedTuple):
    call: str
    path: Path
    records: Iterator[dict[str, Any]]
    records_in_all: int


def _files(args: argparse.Namespace, columns: dict[str, str]) -> Iterator[_File]:
    written = {"ignore": args.ignore, "lists": args.list, "separator": args.separator, "encoding": args.encoding}
    for role, path in (("item", args.items), ("user", args.users)):
        if path is not None:
            known = read_attributes(path, role, columns=columns, **written)
            yield _File(f"/{role}s", path, _puts(role, known), len(known))
    if args.events is not None:
        events = read_events(args.events, columns=columns, **written)
        yield _File("/events", args.events, _events(args.events, events), len(events))


def _puts(role: str, known: Mapping[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (_put(role, *one) for one in known.items())


def _put(role: str, name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    own = {column: attributes.pop(column) for column in AVAILABILITY if role == "item" and column in attributes}
    return {"id": name, "attributes": attributes, **own}


def _events(path: Path, events: list[tuple[Any, str | None]]) -> Iterator[dict[str, Any]]:
    """Events as the service takes them, each under its id in the file, or one that the content of the file leads to."""
    file = blake2b(path.read_bytes(), digest_size=9).hexdigest()
    for number, (event, given) in enumerate(events):
        own = {"user": event.user, "item": event.item, "event_id": given or f"{file}-{number}"}
        own |= {} if event.time is None else {"time": event.time}
        own |= {"context": dict(event.context)} if event.context else {}
        yield own | ({} if event.kind is None else {"kind": event.kind})


def _sent(client: Client, path: str, file: Path, records: Iterable[dict[str, Any]], count: int) -> int:
    """Send records line by line; how many were refused."""
    taken = duplicates = refused = done = 0
    with trials_bar(str(file), count) as advance:
        waiting = iter(records)
        while lines := list(islice(waiting, TOGETHER)):
            body = b"".join(json.dumps(own).encode() + b"\n" for own in lines)
            status, answer = client.send(path, body)
            if status != 200:
                raise Unavailable(f"{path} is refused with {status}: {answer.get('detail', answer)}")
            taken, duplicates = taken + answer["taken"], duplicates + answer["duplicates"]
            for one in answer["refusals"][: max(0, MOST_SHOWN - refused)]:
                print(f"{file}, record {done + one['line']}: {one['detail']}", file=sys.stderr)
            refused, done = refused + answer["refused"], done + len(lines)
            advance(0, done)
    print(f"{file}: {taken:,} taken, {duplicates:,} were there, {refused:,} refused")
    return refused
