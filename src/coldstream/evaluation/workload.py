"""Workloads: a stream with the schemas of the recommenders under test."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from coldstream.evaluation.inference import Inferred, inferred_schema, list_columns, only_declared
from coldstream.events import datasets
from coldstream.events.readers import choose_again, read_stream
from coldstream.events.stream import Stream
from coldstream.features.feedback import Feedback
from coldstream.features.fields import (
    Categories,
    Category,
    Id,
    LastAttribute,
    LastTimePart,
    Number,
    TimePart,
    Title,
)
from coldstream.features.schema import Schema


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream with the schema of the default method and the schema of the paper's factorization machines."""

    stream: Stream
    schema: Schema
    paper: Schema
    published: str = ""
    """Name of the data set, by which the paper's methods find their settings; empty for a user's own files."""
    notes: tuple[str, ...] = ()
    """Remarks for the user on how the stream was read."""


_VIEWER = (Id(), Number("age"), Number("sex"), Category("occupation"))
_FILM = (Id(), Categories("genre"))
_TWEETED_FILM = (*_FILM, Category("year"))
_WEEKDAY = (TimePart("weekday"),)
_PAPER_CONTEXT = (LastAttribute("last_genre", of="genre"), *_WEEKDAY, LastTimePart("last_weekday"))
# No visitor returns, so the attributes of a visitor are context of the click.
_CLICKS = Schema((), (Id(), Category("category")), (Number("age"), Number("sex"), Category("state")), exclude_seen=False)

SHOP = Schema(
    item=(Id(), Category("department"), Category("brand"), Number("price", low=1, high=5), Title()),
    feedback=(Feedback("view", 0.2), Feedback("cart", 0.5), Feedback("purchase", 1.0), Feedback("dislike", -1.0)),
)

SCHEMAS: Mapping[str, tuple[Schema, Schema]] = {
    # The schema of the default method, and that of the paper's methods.
    "ml-100k": (Schema(_VIEWER, _FILM, _WEEKDAY), Schema(_VIEWER, _FILM, _PAPER_CONTEXT)),
    "ml-1m": (Schema(_VIEWER, _FILM, _WEEKDAY), Schema(_VIEWER, _FILM, _PAPER_CONTEXT)),
    "movietweetings": (
        Schema(item=_TWEETED_FILM, context=_WEEKDAY),
        Schema(item=_TWEETED_FILM, context=_PAPER_CONTEXT),
    ),
    "shop": (SHOP, SHOP),
    "clicks": (_CLICKS, _CLICKS),
}


@dataclass(frozen=True, slots=True)
class Known:
    """A data set by name; the seed matters only for a generated one."""

    name: str
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Files:
    """A user's own files, and how to read them."""

    events: Path
    users: Path | None = None
    items: Path | None = None
    schema: Path | None = None
    columns: tuple[tuple[str, str], ...] = ()
    ignore: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    at_least: tuple[str, float] | None = None
    repeats: bool | None = None
    separator: str | None = None
    encoding: str | None = None


Source: TypeAlias = Known | Files
"""Description of a workload's source, small enough to be sent to each process."""


LOOKED_AT = 1000
"""Number of events whose context is searched for a column that may be the time."""
_TIMELY = {"time", "timestamp", "date", "datetime", "day", "ts", "at", "when", "created", "moment"}


_handed_over: dict[Source, Workload] = {}


def hand_over(source: Source, workload: Workload) -> None:
    """Register a workload that another process has read, because this machine may not have its files."""
    _handed_over[source] = workload


def loaded(source: Source) -> Workload:
    """Return the workload of a source, read now unless it was handed over or read before."""
    known = _handed_over.get(source)
    return _read(source) if known is None else known


@lru_cache(maxsize=2)
def _read(source: Source) -> Workload:
    if isinstance(source, Known):
        stream = datasets.load(source.name, seed=source.seed)
        return Workload(stream, *SCHEMAS[source.name], published=source.name)
    declared = None if source.schema is None else Schema.from_toml(source.schema)
    columns, has_kinds = dict(source.columns), declared is not None and bool(declared.feedback)
    if has_kinds:
        columns.setdefault("kind", "kind")
    stream = read_stream(
        source.events,
        source.users,
        source.items,
        columns=columns,
        ignore=source.ignore,
        lists={*source.lists, *([] if declared is None else list_columns(declared))},
        at_least=source.at_least,
        repeats=_repeats(source),
        separator=source.separator,
        encoding=source.encoding,
    )
    if declared is not None and has_kinds and _repeats(source) is None:  # A repeated view is no repeated choice.
        stream = replace(stream, repeats=choose_again([e for e in stream.events if declared.effect_of(e.kind).had]))
    guessed = inferred_schema(stream) if declared is None else Inferred(declared, [])
    notes = (*_order(stream), *guessed.notes)
    return Workload(only_declared(stream, guessed.schema), guessed.schema, guessed.schema, notes=notes)


def _order(stream: Stream) -> list[str]:
    """Return a note if events have no time, so that they are in the order of their file."""
    if stream.events[0].time is not None:
        return []
    names = dict.fromkeys(name for event in stream.events[:LOOKED_AT] for name in event.context)
    likely = [name for name in names if _TIMELY & set(re.split(r"[^a-z]+", name.lower()))]
    which = f" ({' or '.join(map(repr, likely))}?)" if likely else ""
    return [
        "no column 'time': the events are taken in the order of their file;"
        f" if a column{which} has the time, say so with --column time=NAME"
    ]


def _repeats(source: Files) -> bool | None:
    """Return whether items may be chosen again, by the command or else the schema; None leaves it to the stream."""
    if source.repeats is not None or source.schema is None:
        return source.repeats
    stated = tomllib.loads(source.schema.read_text(encoding="utf-8")).get("exclude_seen")
    return None if stated is None else not stated
