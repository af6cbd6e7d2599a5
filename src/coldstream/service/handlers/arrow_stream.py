"""Reading of Arrow streams in the body of a request: each row of their record batches becomes a line of JSON.

Clients are not trusted: a message is bounded before it is read, compressed messages are refused, because a few bytes of them
may be gigabytes, and every array is validated before its values are read. A column that is missing, or of a wrong type,
refuses the whole request once. Rows become Python objects a few at a time.
"""

import asyncio
import math
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import inspect
from numpy.typing import NDArray

from coldstream.runtime.turns import Slices
from coldstream.service.http.problems import Problem
from coldstream.service.messages.core import MOST_FIELDS, MOST_VALUES

if TYPE_CHECKING:
    from coldstream.service.http.streamed_body import StreamedBody

ARROW = b"application/vnd.apache.arrow.stream"
"""Media type of an Arrow stream."""

MOST_ROWS = 100_000
"""Most rows of a record batch."""
MOST_READ_AGAIN = 20
"""Bound on the bytes read, per byte received: dictionaries are read again with every record batch."""
MAX_COLUMNS = 1024
"""Most columns of a record batch."""
MAX_SHARED_BYTES = 4096
"""Most bytes of a value of a dictionary, which rows share: no text of an event, an item or a user is longer."""
MAX_ROW_VALUES = MOST_FIELDS * MOST_VALUES + MAX_COLUMNS
"""Most values of a row, those of its lists counted one by one."""
VALUES_TOGETHER = 1000
"""Values that are converted to Python objects at once, at least one row."""

_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_END = struct.pack("<II", _CONTINUATION, 0)


class RowShape(NamedTuple):
    """A mapping of the columns of a table to the fields of a message."""

    id: str | None
    """Name that the column of the field `id` may have instead; None where it has no other name."""
    kinds: Mapping[str, frozenset[str]]
    """Field of the message → kinds of columns (`_kind_of`) whose values it takes."""
    rest: str
    """Name of the field that holds all other columns, by their names."""
    needed: tuple[str, ...]
    """Fields that every row must have."""


def row_shape(message: type[msgspec.Struct], name: str | None, rest: str) -> RowShape:
    """Return the shape of rows for a type of message; `name` is another name of the column `id`."""
    info = inspect.type_info(message)
    assert isinstance(info, inspect.StructType)
    kinds = {field.name: frozenset(_kinds_for(field.type)) for field in info.fields}
    return RowShape(name, kinds, rest, tuple(field.name for field in info.fields if field.required))


async def arrow_lines(
    body: "StreamedBody", longest: int, shape: RowShape, slices: Slices
) -> AsyncIterator[tuple[int, bytes | Problem]]:
    """Yield the rows of a stream as lines of JSON with their numbers from 1, or a problem in place of a row too large.

    Raises `Problem` for a stream that cannot be read, or that goes beyond the bounds; `longest` bounds a message, and all
    dictionaries together, in bytes.
    """
    try:
        await asyncio.to_thread(_pyarrow)  # its first import is slow
    except ImportError as error:
        needed = f"an Arrow stream needs pyarrow, which cannot be loaded ({error}); send application/x-ndjson"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{needed}, or install 'coldstream[evaluation]' there") from error
    before, dictionaries, number, received, read = b"", bytearray(), 0, 0, 0
    async for kind, message in _messages(body, longest, slices):
        received += len(message)
        if kind == _SCHEMA:
            before = message
        elif kind == _DICTIONARY:
            dictionaries += message
            if len(dictionaries) > longest:
                raise _too_long("all dictionaries together", longest)
        elif kind == _BATCH:
            stream = before + dictionaries + message + _END
            read += len(stream)
            if read > MOST_READ_AGAIN * received + longest:  # dictionaries are read with every batch
                said = "record batches must not be small beside their dictionaries; send larger ones, or plain texts"
                raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said, "$", {"Connection": "close"})
            batch = await asyncio.to_thread(_batch, stream, shape)  # in a thread, so that other requests do not wait
            for row in _rows(batch):
                number += 1
                yield number, row if isinstance(row, Problem) else msgspec.json.encode(_record(row, shape), enc_hook=str)


def _record(row: dict[str, Any], shape: RowShape) -> dict[str, Any]:
    # An infinite number would become null in JSON, as if it were left out. As a text it is refused, with its field.
    ends = (math.inf, -math.inf)
    known = {
        name: str(value) if value in ends else value for name, value in row.items() if value is not None and value == value
    }
    if shape.id is not None and shape.id in known:
        known["id"] = known.pop(shape.id)
    rest = {name: known.pop(name) for name in list(known) if name not in shape.kinds}
    return known | {shape.rest: rest} if rest else known


# Messages


async def _messages(parts: "StreamedBody", longest: int, slices: Slices) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the complete messages of a stream, each with its kind."""
    body = _Body(parts)
    while head := await body.take(8):
        await slices.pause_if_over()
        mark, length = struct.unpack("<II", head)
        if mark != _CONTINUATION:
            raise _no_arrow("it does not begin as one of format V5 does")
        if length == 0:
            return
        if length > longest:
            raise _too_long("a message", longest)
        described = await body.take(length)
        kind, size, compressed = _described(described)
        if compressed:
            raise _no_arrow("a record batch is compressed; write it without compression")
        if not 0 <= size <= longest - length:
            raise _too_long("a record batch", longest)
        yield kind, head + described + (await body.take(size) if size else b"")


class _Body:
    """A buffer of a request's body, which takes as many parts as are needed."""

    def __init__(self, parts: "StreamedBody") -> None:
        self._parts, self._had = parts, bytearray()

    async def take(self, length: int) -> bytes:
        """Return the next `length` bytes; no bytes at the end of the body. Raises `Problem` where it ends in between."""
        while len(self._had) < length and (part := await self._parts.part()) is not None:
            self._had += part
            self._parts.keep(len(self._had))
        if not self._had:
            return b""
        if len(self._had) < length:
            raise _no_arrow("it ends in the midst of a message")
        taken = bytes(self._had[:length])
        del self._had[:length]
        return taken


def _described(metadata: bytes) -> tuple[int, int, bool]:
    """Return the kind of a message, the bytes of its body, and whether it is compressed, from its metadata alone."""
    try:
        message = _Table(metadata, struct.unpack_from("<I", metadata)[0])
        kind, size = message.number(1, "<B"), message.number(3, "<q")
        inner = message.table(2)
        if kind == _DICTIONARY and inner is not None:
            inner = inner.table(1)
        compressed = kind in (_DICTIONARY, _BATCH) and inner is not None and inner.table(3) is not None
    except struct.error:
        raise _no_arrow("a message cannot be read") from None
    return kind, size, compressed


class _Table:
    """A table in a FlatBuffer, the format of Arrow's metadata."""

    def __init__(self, buffer: bytes, place: int) -> None:
        self._buffer, self._place = buffer, place
        self._fields = place - _at(buffer, place, "<i")
        self._size = _at(buffer, self._fields, "<H")

    def _field(self, number: int) -> int:
        entry = 4 + 2 * number
        offset = _at(self._buffer, self._fields + entry, "<H") if entry < self._size else 0
        return self._place + offset if offset else -1

    def number(self, number: int, form: str) -> int:
        """Return a number by its field's index; 0 where it is left out."""
        place = self._field(number)
        return 0 if place < 0 else _at(self._buffer, place, form)

    def table(self, number: int) -> "_Table | None":
        """Return a table by its field's index; None where it is left out."""
        place = self._field(number)
        return None if place < 0 else _Table(self._buffer, place + _at(self._buffer, place, "<I"))


def _at(buffer: bytes, place: int, form: str) -> int:
    if place < 0:  # Python would take it as an offset from the end
        raise struct.error
    return int(struct.unpack_from(form, buffer, place)[0])


# Rows


class _Batch(NamedTuple):
    """A validated record batch, with the weights of its rows."""

    rows: Any
    weight: NDArray[np.int64]
    """Number of values per row that are converted to Python objects."""
    oversized: NDArray[np.int16]
    """Index per row of the first column whose value is larger than any field takes; -1 where there is none."""


def _rows(batch: _Batch) -> Iterator[dict[str, Any] | Problem]:
    """Yield the rows in order, converted a few at a time, or a problem in place of a row that is oversized."""
    ends, first, count = np.cumsum(batch.weight), 0, len(batch.weight)
    problems: dict[int, Problem] = {}
    while first < count:
        done = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(ends, done + VALUES_TOGETHER, "right")))
        oversized = batch.oversized[first:end]
        some = batch.rows.slice(first, end - first)
        if oversized.max() >= 0:
            some = some.filter(_pyarrow().array(oversized < 0))
        try:
            rows = iter(some.to_pylist())
        except (ValueError, OverflowError, LookupError) as error:  # pyarrow's own errors are ValueErrors
            raise _no_arrow(_unreadable(some, error)) from error
        for column in oversized.tolist():
            if column < 0:
                yield next(rows)
            else:
                yield problems.setdefault(column, _oversized(batch.rows.schema.field(column).name))
        first = end


def _oversized(column: str) -> Problem:
    most = f"{MAX_SHARED_BYTES} bytes, or a list of more than {MOST_VALUES} values"
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"column {column!r} has a value of more than {most}", f"$.{column}")


def _unreadable(batch: Any, error: Exception) -> str:
    """Say which column has a value that Python cannot hold: a time beyond the year 9999, or in an unknown zone."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        try:
            column.to_pylist()
        except (ValueError, OverflowError, LookupError):
            kind = f"column {field.name!r} of type {field.type}"
            return f"{kind} has a value that cannot be read; make times of the years 1900 to 2200, in UTC"
    return str(error)


def _batch(stream: bytes, shape: RowShape) -> _Batch:
    """Read and validate the record batch of a stream that holds one. Raises `Problem` if it is refused."""
    pa = _pyarrow()
    try:
        with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
            batch = reader.read_next_batch()
        if batch.num_rows > MOST_ROWS:
            message = f"a record batch must not have more than {MOST_ROWS} rows, got {batch.num_rows}; send smaller ones"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "$", {"Connection": "close"})
        if twice := [name for name, times in Counter(batch.schema.names).items() if times > 1]:
            raise _no_arrow(f"column {twice[0]!r} is there {batch.schema.names.count(twice[0])} times; send it once")
        if batch.num_columns > MAX_COLUMNS:
            raise _no_arrow(f"it has {batch.num_columns} columns, the most is {MAX_COLUMNS}")
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if not _is_plain(pa, field.type):
                raise _no_arrow(
                    f"column {field.name!r} is of type {field.type}; make it text, numbers, times, or lists of them"
                )
            column.validate(full=True)
        _check_columns(batch, shape)
        return _weighed(batch)
    except (pa.ArrowException, OSError, ValueError, TypeError, StopIteration, OverflowError) as error:
        raise _no_arrow(str(error).partition("\n")[0][:200]) from error


def _check_columns(batch: Any, shape: RowShape) -> None:
    """Raise `Problem` for a needed column that is missing or empty, or a column of a type that its field does not take."""
    columns = {("id" if field.name == shape.id else field.name): number for number, field in enumerate(batch.schema)}
    for name in shape.needed:
        own = f"{name!r} or {shape.id!r}" if name == "id" and shape.id is not None else f"{name!r}"
        if name not in columns:
            raise _wrong_column(name, f"column {own} is missing; every row must have {' and '.join(shape.needed)}")
        if batch.num_rows and batch.column(columns[name]).null_count == batch.num_rows:
            raise _wrong_column(name, f"column {own} has no value; every row must have {' and '.join(shape.needed)}")
    for name, number in columns.items():
        kind, taken = batch.schema.field(number).type, shape.kinds.get(name)
        if taken is not None and not _pyarrow().types.is_null(kind) and _kind_of(kind) not in taken:
            words = " or ".join(sorted({_KINDS[own] for own in taken})) or f"a column for each field of {name}"
            raise _wrong_column(name, f"column {name!r} is of type {kind}; make it {words}")


def _wrong_column(name: str, message: str) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, message, f"$.{name}", {"Connection": "close"})


_KINDS = {
    "text": "text",
    "integer": "numbers",
    "floating": "numbers",
    "boolean": "true/false",
    "timestamp": "times",
    "list": "lists",
}
"""Kind of column → its name in messages."""


def _kind_of(kind: Any) -> str:
    """Return which of `_KINDS` a plain type of Arrow is."""
    types = _pyarrow().types
    tests = {
        "list": types.is_list(kind) or types.is_large_list(kind),
        "integer": types.is_integer(kind),
        "floating": types.is_floating(kind),
        "boolean": types.is_boolean(kind),
        "timestamp": types.is_timestamp(kind),
    }
    return next((name for name, holds in tests.items() if holds), "text")


def _kinds_for(node: inspect.Type) -> set[str]:
    """Return the kinds of columns whose values a field of a type may take."""
    match node:
        case inspect.Metadata():
            return _kinds_for(node.type)
        case inspect.UnionType():
            return set().union(*map(_kinds_for, node.types))
        case inspect.StrType():
            return {"text"}
        case inspect.IntType() | inspect.FloatType():
            return {"integer", "floating"}
        case inspect.BoolType():
            return {"boolean"}
        case inspect.DateTimeType():
            return {"text", "timestamp"}
        case inspect.ListType():
            return {"list"}
    return set()


def _weighed(batch: Any) -> _Batch:
    """Count the values of each row, and find oversized rows, without making Python objects of them."""
    import pyarrow.compute as pc

    types, rows = _pyarrow().types, batch.num_rows
    weight = np.full(rows, max(1, batch.num_columns), np.int64)
    oversized = np.full(rows, -1, np.int16)
    for number, column in enumerate(batch.columns):
        if types.is_list(column.type) or types.is_large_list(column.type):
            size, most = pc.list_value_length(column), MOST_VALUES
        elif types.is_dictionary(column.type):
            size, most = pc.take(pc.binary_length(column.dictionary), column.indices), MAX_SHARED_BYTES
        else:
            continue
        sizes = pc.fill_null(size, 0).to_numpy(zero_copy_only=False)
        oversized[(sizes > most) & (oversized < 0)] = number
        if most == MOST_VALUES:
            weight += sizes
            oversized[(weight > MAX_ROW_VALUES) & (oversized < 0)] = number
    weight[oversized >= 0] = 1
    return _Batch(batch, weight, oversized)


def _pyarrow() -> Any:
    import pyarrow as pa  # an optional dependency, only for Arrow streams

    return pa


def _is_plain(pa: Any, kind: Any) -> bool:
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
    elif types.is_dictionary(kind):
        return bool(types.is_string(kind.value_type) or types.is_large_string(kind.value_type))
    text = types.is_string(kind) or types.is_large_string(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return bool(text or number or types.is_timestamp(kind) or types.is_null(kind))


def _no_arrow(why: str) -> Problem:
    message = f"the body must be an Arrow stream ({why}); what was taken before stays"
    return Problem(HTTPStatus.BAD_REQUEST, message, "$", {"Connection": "close"})


def _too_long(what: str, longest: int) -> Problem:
    message = f"{what} must not be longer than {longest} bytes; send smaller record batches"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "$", {"Connection": "close"})
