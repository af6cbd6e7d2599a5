"""Data frames of pandas, polars or Arrow as input: events, items, users and requests; and answers as data frames."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, repeat
from types import ModuleType
from typing import Any, NamedTuple

from coldstream.errors import InvalidInput, shown
from coldstream.events.availability import ALWAYS, Availability
from coldstream.events.event import Event
from coldstream.features.fields import Categories, Category, Number
from coldstream.features.schema import Schema

_MAKERS = frozenset({"cudf", "modin", "narwhals", "pandas", "polars", "pyarrow"})
_TIMES = ("available_from", "available_until")
_ATTRIBUTES = (Category, Categories, Number)


class Request(NamedTuple):
    """A request for recommendations, from one row of a frame."""

    user: str | None
    time: float | None
    context: Mapping[str, Any]


def is_frame(given: object) -> bool:
    """Return whether an object is a data frame.

    Decided by the name of its type, so that no library is imported needlessly.
    """
    names = {(own.__module__.partition(".")[0], own.__name__) for own in type(given).__mro__}
    return any(maker in _MAKERS and name in ("DataFrame", "LazyFrame", "Table", "RecordBatch") for maker, name in names)


def events_of(frame: object, schema: Schema, columns: Mapping[str, str] | None = None) -> list[Event]:
    """Return the events of a frame, in the order of its rows.

    Raise `InvalidInput` for missing columns and invalid ids or times.

    The frame has columns `user` and `item`. Optional are `time`, the context fields that the schema declares, and `kind` if
    the schema declares kinds. `columns` maps these names to those of the frame, and names context fields that the schema
    does not declare.
    """
    table = _Table(frame, columns)
    users, items, times = table.ids("user"), table.ids("item"), table.times("time")
    context = table.records(_declared(schema.context), beyond=("user", "item", "time", "kind"))
    if not (schema.feedback and table.has("kind")):
        return list(map(Event, users, items, times, context))
    kinds = [None if _is_missing(kind) else kind for kind in table.values("kind")]
    return list(map(Event, users, items, times, context, kinds))


def items_of(
    frame: object, schema: Schema, columns: Mapping[str, str] | None = None
) -> list[tuple[str, Mapping[str, Any], Availability]]:
    """Return the items of a frame: ids in column `item`, the attributes that the schema declares, and availability.

    Availability is in the optional columns `available_from`, `available_until` and `hidden`. `columns` maps these names to
    those of the frame.
    """
    table = _Table(frame, columns)
    ids, attributes = table.ids("item"), table.records(_declared(schema.item), beyond=("item", *_TIMES, "hidden"))
    if not any(table.has(name) for name in (*_TIMES, "hidden")):
        return list(zip(ids, attributes, repeat(ALWAYS)))
    begins, ends = (table.times(name) for name in _TIMES)
    hidden = table.values("hidden") if table.has("hidden") else repeat(None)
    windows = (Availability.of(*one) for one in zip(ids, begins, ends, (bool(flag) for flag in hidden), strict=False))
    return list(zip(ids, attributes, windows, strict=True))


def users_of(frame: object, schema: Schema, columns: Mapping[str, str] | None = None) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the users of a frame: ids in column `user`, and declared attributes.

    `columns` maps names to those of the frame.
    """
    table = _Table(frame, columns)
    return list(zip(table.ids("user"), table.records(_declared(schema.user), beyond=("user",)), strict=True))


def requests_of(frame: object, schema: Schema, columns: Mapping[str, str] | None = None) -> list[Request]:
    """Return the requests of a frame: `user`, optionally `time` and context fields. `columns` is as in `events_of`."""
    table = _Table(frame, columns)
    context = table.records(_declared(schema.context), beyond=("user", "item", "time"))
    return list(map(Request, table.ids("user", may_be_missing=True), table.times("time"), context))


def frame_of(answers: Sequence[Sequence[tuple[str, float]]], requests: Sequence[Request], like: object) -> Any:
    """Return answers as a frame of the same library as `like`.

    Columns are `request`, `user`, `rank`, `item`, `score`, with a row per recommended item.

    `request` is the row number of the request, from 0; `rank` counts from 1.
    """
    nw, given = _narwhals(), _wrapped(like)
    counts = list(map(len, answers))
    columns = {
        "request": list(chain.from_iterable(map(repeat, range(len(counts)), counts))),
        "user": list(chain.from_iterable(repeat(one.user, count) for one, count in zip(requests, counts, strict=True))),
        "rank": list(chain.from_iterable(range(1, count + 1) for count in counts)),
        "item": [item for answer in answers for item, _ in answer],
        "score": [score for answer in answers for _, score in answer],
    }
    kinds = {"request": nw.Int64, "user": nw.String, "rank": nw.Int64, "item": nw.String, "score": nw.Float64}
    return nw.from_dict(columns, kinds, backend=given.implementation).to_native()


class _Table:
    """The columns of a frame under the names that this module uses."""

    def __init__(self, frame: object, columns: Mapping[str, str] | None) -> None:
        wrapped = _wrapped(frame)
        self._frame = wrapped.collect() if isinstance(wrapped, _narwhals().LazyFrame) else wrapped
        self._given = _checked_columns(columns, self._frame.columns)

    def has(self, name: str) -> bool:
        """Return whether the frame has a column."""
        return self._given.get(name, name) in self._frame.columns

    def values(self, name: str) -> list[Any]:
        """Return a column as plain Python values, with None for missing ones."""
        # pandas returns lists as NumPy arrays.
        return [one.tolist() if hasattr(one, "tolist") else one for one in self._column(name).to_list()]

    def ids(self, name: str, may_be_missing: bool = False) -> list[Any]:
        """Return a column of ids, which are strings or integers; integers are written in digits."""
        column = self._column(name)
        if column.dtype.is_integer():
            return [None if one is None else str(one) for one in column.to_list()]
        values: list[Any] = column.to_list()
        if set(map(type, values)) <= {str}:
            return values
        for row, one in enumerate(values):
            if type(one) is not str:
                if _is_missing(one) and may_be_missing:
                    values[row] = None
                    continue
                remedy = "cast the column to strings or whole numbers, and leave out rows without an id"
                raise InvalidInput(
                    f"column {self._given.get(name, name)!r}, row {row}: got {shown(one)} for an id; {remedy}"
                )
        return values

    def times(self, name: str) -> Iterable[float | None]:
        """Return a column of times in seconds since 1970, with None for missing ones.

        Without the column, every row has None.
        """
        if not self.has(name):
            return repeat(None, len(self._frame))
        nw, column, known = _narwhals(), self._column(name), self._given.get(name, name)
        if isinstance(column.dtype, nw.Datetime):
            if column.dtype.time_zone is None:
                remedy = "say which with .dt.tz_localize('UTC') in pandas, .dt.replace_time_zone('UTC') in polars"
                raise InvalidInput(f"column {known!r}: times must carry their time zone, got {column.dtype}; {remedy}")
            seconds = column.dt.timestamp("us").cast(nw.Float64) / 1e6
        elif column.dtype.is_numeric():
            seconds = column.cast(nw.Float64)
        else:
            seconds = column
        values: list[Any] = seconds.to_list()
        if seconds.dtype.is_float() and not _has_gaps(seconds):
            return values
        return [None if _is_missing(one) else _seconds(known, one) for one in values]

    def records(self, declared: Iterable[str], beyond: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Return a dictionary per row of the declared fields and those in `columns`, without missing values."""
        names = [name for name in declared if self.has(name)]
        names += [name for name in self._given if name not in names and name not in beyond]
        if not names:
            return (dict[str, Any]() for _ in range(len(self._frame)))
        lists, rows = [self.values(name) for name in names], len(self._frame)
        if not any(map(_has_gaps, map(self._column, names))):
            return (dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True))
        columns = list(zip(names, lists, strict=True))
        return ({name: column[row] for name, column in columns if not _is_missing(column[row])} for row in range(rows))

    def _column(self, name: str) -> Any:
        known = self._given.get(name, name)
        if known not in self._frame.columns:
            remedy = f"say what it is called with columns={{{name!r}: …}}"
            raise InvalidInput(f"frame: no column {known!r}, it has {', '.join(self._frame.columns) or 'none'}; {remedy}")
        return self._frame[known]


def _has_gaps(column: Any) -> bool:
    return bool(column.null_count()) or (column.dtype.is_float() and bool(column.is_nan().any()))


def _is_missing(value: object) -> bool:
    return value is None or (type(value) is float and value != value) or type(value).__name__ in ("NAType", "NaTType")


def _seconds(column: str, value: object) -> Any:
    if isinstance(value, float | int | datetime) and not isinstance(value, bool):
        return value
    remedy = "give seconds since 1970, or a column of times with their zone"
    raise InvalidInput(f"column {column!r}: a time must be a number or a datetime, got {shown(value)}; {remedy}")


def _declared(fields: Iterable[object]) -> list[str]:
    return [field.name for field in fields if isinstance(field, _ATTRIBUTES)]


def _checked_columns(columns: object, there: Sequence[str]) -> Mapping[str, str]:
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise InvalidInput(f"columns must be a mapping from our name to the frame's, got {shown(columns)}")
    for name, known in columns.items():
        if known not in there:
            raise InvalidInput(f"columns: {shown(name)} is to be column {shown(known)}, but it has {', '.join(there)}")
    return columns


def _wrapped(frame: Any) -> Any:
    """Return a frame wrapped by narwhals, first converting a record batch of Arrow into a table."""
    if type(frame).__name__ == "RecordBatch":
        import pyarrow

        frame = pyarrow.Table.from_batches([frame])
    _check_columns_are_distinct(frame)
    return _narwhals().from_native(frame)


def _check_columns_are_distinct(frame: Any) -> None:
    """Raise `InvalidInput` if two columns have the same name, which pandas and Arrow allow."""
    if type(frame).__name__ == "LazyFrame":  # its names are always distinct, and resolving them is expensive
        return
    names = frame.column_names if hasattr(frame, "column_names") else frame.columns
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidInput(f"frame: column {name!r} is there {times} times; rename or remove all but one")


def _narwhals() -> ModuleType:
    try:
        import narwhals
    except ModuleNotFoundError as error:
        raise InvalidInput("narwhals is not installed; data frames need it: pip install 'coldstream[frames]'") from error
    return narwhals
