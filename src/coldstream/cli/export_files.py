"""`coldstream export`: write events, items, users and shown lists as Parquet or JSON-lines, while the service runs."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from coldstream.cli.store_address import add_store, store_of
from coldstream.cluster.team import HIRE_HERE
from coldstream.errors import InvalidInput
from coldstream.events.table_writing import WRITERS, TableWriter, writer_of
from coldstream.features.fields import Attribute, Categories, Field, Number
from coldstream.features.schema import Schema
from coldstream.recommender import Recommender
from coldstream.runtime.records import Interaction, record_of
from coldstream.runtime.recovery import RequestedModel, followed
from coldstream.runtime.team import Hiring
from coldstream.storage import stores
from coldstream.storage.shown import ShownList
from coldstream.storage.view import View

WANTED = ("items", "users", "events", "shown")


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    kinds = " or ".join(WRITERS)
    parser = commands.add_parser(
        "export",
        description="Changes nothing, and may run beside the service. What was erased or deleted is not there. "
        "`coldstream import` and `coldstream evaluate` read the files.",
    )
    add_store(parser)
    for name in WANTED:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"the file to make: {kinds}")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    wanted = {name: path for name in WANTED if (path := getattr(args, name)) is not None}
    if not wanted:
        raise InvalidInput("give at least one of --items, --users, --events and --shown")
    for path in wanted.values():
        writer_of(path)
    with closing(stores.inspected(store_of(args))) as store:
        recommender = followed(store, RequestedModel(None, None, None, hiring=Hiring(here=HIRE_HERE))).recommender
        rows: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
            "items": lambda: _items(recommender),
            "users": lambda: ({"user": user, **recommender.user(user)} for user in recommender.users()),
            "events": lambda: _events(store),
            "shown": lambda: _shown(stores.read_shown(store_of(args))),
        }
        for name, path in wanted.items():
            with writer_of(path)(path, _columns(name, recommender.schema)) as file:
                count = _written(file, rows[name]())
            print(f"{count:,} {name} in {path}")
    return 0


def _written(file: TableWriter, rows: Iterator[dict[str, Any]]) -> int:
    count = 0
    for row in rows:
        file.write(row)
        count += 1
    return count


def _items(recommender: Recommender) -> Iterator[dict[str, Any]]:
    for item in recommender.items():
        own = recommender.availability(item)
        known = {"available_from": own.available_from, "available_until": own.available_until, "hidden": own.hidden or None}
        yield {"item": item, **recommender.item(item), **{name: value for name, value in known.items() if value is not None}}


def _events(store: View) -> Iterator[dict[str, Any]]:
    for entry in store.read(store.cut()):
        record = record_of(entry)
        if isinstance(record, Interaction):
            own = {"user": record.user, "item": record.item, "time": record.time, "kind": record.feedback}
            yield {**own, "event_id": record.event_id, "recommendation_id": record.recommendation_id, **record.context}


def _shown(lists: Iterator[ShownList]) -> Iterator[dict[str, Any]]:
    """Yield a row for every item of the lists that was shown."""
    for one in lists:
        for place in range(one.first, len(one.items)):
            own = {"recommendation_id": one.name, "user": one.user, "time": one.time, "position": place + 1}
            yield own | {"item": one.items[place], "taken": place in one.taken}


def _columns(name: str, schema: Schema) -> dict[str, str]:
    """Return the columns of a file and their types: `text`, `number`, `flag` (true/false) or `texts` (a list of strings)."""
    side = {"items": schema.item, "users": schema.user, "events": schema.context, "shown": ()}[name]
    given = {field.name: _kind(field) for field in side if isinstance(field, Attribute)}
    own = {
        "items": {"item": "text"},
        "users": {"user": "text"},
        "events": {"user": "text", "item": "text", "time": "number", "kind": "text", "event_id": "text"}
        | {"recommendation_id": "text"},
        "shown": {"recommendation_id": "text", "user": "text", "time": "number", "position": "number", "item": "text"}
        | {"taken": "flag"},
    }[name]
    behind = {"available_from": "number", "available_until": "number", "hidden": "flag"} if name == "items" else {}
    return own | {column: kind for column, kind in given.items() if column not in own} | behind


def _kind(field: Field) -> str:
    if isinstance(field, Categories):
        return "texts"
    return "number" if isinstance(field, Number) else "text"
