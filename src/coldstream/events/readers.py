"""Reading a stream from a file of events and optional tables of users and items."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from coldstream.errors import InvalidInput, shown
from coldstream.events.dialect import Dialect
from coldstream.events.event import EARLIEST, LATEST, PLAUSIBLE, Event, shorter_unit
from coldstream.events.stream import Stream
from coldstream.events.tables import Table, read_table

ROLES = ("user", "item", "time", "kind")
REPEATED = 0.05
"""Share of events that repeat an item of their user, above which a stream is taken to have repeated choices."""


class EventRow(NamedTuple):
    """A row of a file of events."""

    number: int
    """Number of the row as an editor or a spreadsheet counts."""
    event: Event
    given: str | None
    """Id of the event in the file, if any."""


class AttributeRow(NamedTuple):
    """A row of a file of users or items."""

    number: int
    """Number of the row as an editor or a spreadsheet counts."""
    name: str
    attributes: dict[str, Any]


def read_stream(
    events: str | Path,
    users: str | Path | None = None,
    items: str | Path | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    lists: Collection[str] = (),
    at_least: tuple[str, float] | None = None,
    repeats: bool | None = None,
    name: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> Stream:
    """Read a stream from CSV, Parquet or JSON-lines files, in order of time; equal times keep the order of the file.

    `columns` maps `user`, `item` and `time` to the names in the files, and `kind` to the column with kinds of events, if
    any. All other columns are context or attributes, except those to `ignore`. A text in a column among `lists` is split at
    "|". `at_least=("rating", 4)` keeps events with a rating of 4 or more. If `repeats` is not given, it is true if more than
    5 % of the events repeat an item of their user. `separator` and `encoding` are for CSV files in which they cannot be
    detected, such as `encoding="cp1252"`.
    """
    layout = _Layout(_named(columns), lists, ignore, Dialect.checked(separator, encoding))
    tables = _tables(layout, events=events, user=users, item=items)
    chosen = sorted(_events(tables["events"], layout, at_least), key=lambda event: event.time or 0.0)
    if not chosen:
        raise InvalidInput(f"{events}: there are no events in it; give a file with rows, or keep more of them")
    return Stream(
        name or Path(events).stem,
        chosen,
        {} if users is None else _attributes(tables["user"], "user", layout, {event.user for event in chosen}),
        {} if items is None else _attributes(tables["item"], "item", layout, {event.item for event in chosen}),
        choose_again(chosen) if repeats is None else repeats,
    )


def read_events(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    lists: Collection[str] = (),
    separator: str | None = None,
    encoding: str | None = None,
) -> list[EventRow]:
    """Read events from a file in order of time, each with its id if the file has a column `event_id`.

    A column `kind` has the kinds of the events. The parameters are those of `read_stream`.
    """
    layout = _Layout(_named(columns), lists, ignore, Dialect.checked(separator, encoding))
    table = _tables(layout, events=path)["events"]
    if "kind" in table.columns:
        layout = layout._replace(named={"kind": "kind", **layout.named})
    ids = [None if own is None else str(own) for own in table.columns.get("event_id", [None] * len(table.numbers))]
    known = {name: column for name, column in table.columns.items() if name not in ("event_id", "recommendation_id")}
    events = _events(table._replace(columns=known), layout, None)
    rows = map(EventRow, table.numbers, events, ids)
    return sorted(rows, key=lambda one: one.event.time or 0.0)


def read_attributes(
    path: str | Path,
    role: str,
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    lists: Collection[str] = (),
    separator: str | None = None,
    encoding: str | None = None,
) -> list[AttributeRow]:
    """Read attributes of users or items from a file.

    `role` is "user" or "item"; other parameters are those of `read_stream`.
    """
    layout = _Layout(_named(columns), lists, ignore, Dialect.checked(separator, encoding))
    table = _tables(layout, **{role: path})[role]
    known = _known(table, role, layout)
    return [AttributeRow(number, *own) for number, own in zip(table.numbers, known.items(), strict=True)]


def choose_again(events: Sequence[Event]) -> bool:
    """Return whether more than 5 % of the events repeat an item of their user."""
    had = {(event.user, event.item) for event in events}
    return len(events) - len(had) > REPEATED * len(events)


class _Layout(NamedTuple):
    """Layout of the files: names of the columns, columns to split, columns to ignore, and the dialect."""

    named: Mapping[str, str]
    lists: Collection[str]
    ignore: Collection[str]
    dialect: Dialect


def _named(columns: Mapping[str, str] | None) -> dict[str, str]:
    for role, column in (columns or {}).items():
        if role not in ROLES:
            raise InvalidInput(
                f"columns: {shown(role)} cannot be renamed, got {shown(column)}; known are {', '.join(ROLES)}"
            )
    # A context field may be named kind, so such a column has kinds of events only if the caller says so.
    return {role: role for role in ROLES if role != "kind"} | dict(columns or {})


def _tables(layout: _Layout, **paths: str | Path | None) -> dict[str, Table]:
    """Read the given tables. Raise `InvalidInput` if no table has a column that is to be ignored."""
    named, tables = layout.named, dict[str, Table]()
    for name, path in paths.items():
        if path is not None:
            ids = {named[role] for role in ("user", "item", "kind") if role in named}
            texts = ids if name == "events" else set(_candidates(layout, name))
            tables[name] = read_table(Path(path), texts | set(layout.lists), layout.ignore, layout.dialect)
    met = {name for table in tables.values() for name in (*table.columns, *table.left_out)}
    for name in layout.ignore:  # a mistyped name would keep a column that may reveal the choice
        if name not in met:
            raise InvalidInput(f"ignore: no file has a column {name!r}; name one of {', '.join(sorted(met))}")
    return tables


def _candidates(layout: _Layout, role: str) -> tuple[str, str, str]:
    """Return the possible names of the id column in a table of users or items."""
    return layout.named[role], role, "id"


def _events(table: Table, layout: _Layout, at_least: tuple[str, float] | None) -> list[Event]:
    named = layout.named
    used = set(named.values())
    if at_least is not None:
        table = _filtered(table, *at_least)
        used.add(at_least[0])
    users, items = (_ids(table, role, named[role]) for role in ("user", "item"))
    times, contexts = _times(table, named["time"]), _records(table, layout.lists, used)
    kinds = _kinds(table, named["kind"]) if "kind" in named else [None] * len(users)
    return [Event(*parts) for parts in zip(users, items, times, contexts, kinds, strict=True)]


def _kinds(table: Table, column: str) -> list[str | None]:
    """Return the kinds of all rows, None for a row without one."""
    given = [value if value != "" else None for value in table.column_of("kind", column)]
    for row, value in enumerate(given):
        if not isinstance(value, str | None):
            raise table.problem(row, column, "the kind of the event, a text", "convert the column")
    return given


def _filtered(table: Table, column: str, least: float) -> Table:
    rated = table.column(column, "filter by one of these")
    for row, value in enumerate(rated):
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise table.problem(row, column, "a number, to be filtered by", "filter by a column of numbers")
    return table.only([row for row, value in enumerate(rated) if value is not None and value >= least])


def _attributes(table: Table, role: str, layout: _Layout, chosen: set[str]) -> dict[str, dict[str, Any]]:
    """Return the attributes of users or items by id. Raise `InvalidInput` if none of the ids occurs in the events."""
    records, column = _known(table, role, layout), _id_column(table, role, layout)
    if records and chosen.isdisjoint(records):
        known, met = shown(next(iter(records))), shown(min(chosen))
        raise InvalidInput(
            f"{table.path}: {column} must be ids of the events such as {met}, got only others such as {known}"
        )
    return records


def _id_column(table: Table, role: str, layout: _Layout) -> str:
    """Return the name of the id column: as in the events, or the role, or `id`."""
    candidates = _candidates(layout, role)
    return next((name for name in candidates if name in table.columns), candidates[0])


def _known(table: Table, role: str, layout: _Layout) -> dict[str, dict[str, Any]]:
    """Return the attributes of users or items by id. Raise `InvalidInput` if an id occurs twice."""
    column = _id_column(table, role, layout)
    records: dict[str, dict[str, Any]] = {}
    for row, (id_, record) in enumerate(
        zip(_ids(table, role, column), _records(table, layout.lists, {column}), strict=True)
    ):
        if id_ in records:
            raise table.problem(row, column, "in one row only", f"keep one row per {role}")
        records[id_] = record
    return records


def _ids(table: Table, role: str, column: str) -> list[str]:
    given = table.column_of(role, column)
    ids = [str(value) if type(value) is int else value for value in given]
    for row, value in enumerate(ids):
        if not isinstance(value, str) or not value:
            rule = f"the {role}'s id, a string or a whole number"
            remedy = "fill it in, or remove the row" if value in (None, "") else "convert the column"
            raise table.problem(row, column, rule, remedy)
    return ids


def _times(table: Table, column: str) -> list[float | None]:
    """Return seconds since 1970 for every row, or None for all rows if no row has a time."""
    if column != "time":
        table.column_of("time", column)
    given = table.columns.get(column, [None] * len(table.numbers))
    if given.count(None) == len(given):
        return given
    return [_seconds(table, row, column, value) for row, value in enumerate(given)]


def _seconds(table: Table, row: int, column: str, value: Any) -> float:
    if isinstance(value, str):
        value = _moment(value)
        if value is None:
            remedy = 'write it as in "2013-11-06T00:00:25Z"'
            raise table.problem(row, column, "seconds since 1970 or a date and time in ISO 8601", remedy)
    if isinstance(value, bool | list | None):
        raise table.problem(row, column, "a time, because other rows have one", "fill it in, or remove the row")
    if not EARLIEST <= value < LATEST:
        raise table.problem(row, column, PLAUSIBLE, shorter_unit(value))
    return float(value)


def _moment(text: str) -> float | None:
    """Parse a date or a number as seconds. One date in a column makes strings of the whole column, numbers included."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            seconds = float(text)
        except ValueError:
            return None
        return seconds if isfinite(seconds) else None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _records(table: Table, lists: Collection[str], without: Collection[str]) -> list[dict[str, Any]]:
    """Return every row as a mapping from column to value, without missing values."""
    columns = {
        name: list(map(_split, column)) if name in lists else column
        for name, column in table.columns.items()
        if name not in without
    }
    if not columns:
        return [{} for _ in table.numbers]
    return [
        {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        for row in zip(*columns.values(), strict=True)
    ]


def _split(value: Any) -> Any:
    return [part for part in value.split("|") if part] if isinstance(value, str) else value
