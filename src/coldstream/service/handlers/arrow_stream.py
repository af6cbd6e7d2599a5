"""Arrow streams in one request: record batches as they come, each row as a line of JSON.

What a client sends is not believed: a message is bounded before it is read, compressed ones are refused, because a few bytes
of them may be gigabytes, and every array is validated before anything looks into it.
"""

import asyncio
import math
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive

from coldstream.service.http.problems import Problem

ARROW = b"application/vnd.apache.arrow.stream"
"""What an Arrow stream is called."""

MOST_ROWS = 100_000
"""Rows of a record batch."""
MOST_READ_AGAIN = 20
"""How many times the bytes that came may be read."""
LONGEST_VALUE = 2**16
"""Bytes of a value that many rows may share."""
TOGETHER = 100
"""Rows that are made objects of at once."""

_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_END = struct.pack("<II", _CONTINUATION, 0)


class RowShape(NamedTuple):
    """What becomes of the columns of a table."""

    id: str | None
    """Another name of the column `id`."""
    fields: frozenset[str]
    """Columns that are a record's own …"""
    rest: str
    """… and where all others go."""


async def arrow_lines(receive: Receive, longest: int, shape: RowShape) -> AsyncIterator[tuple[int, bytes]]:
    """The rows of a stream as lines of JSON, with their numbers from 1."""
    try:
        _pyarrow()
    except ImportError as error:
        needed = f"an Arrow stream needs pyarrow, which cannot be loaded ({error}); send application/x-ndjson"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{needed}, or install 'coldstream[evaluation]' there") from error
    before, dictionaries, number, received, read = b"", b"", 0, 0, 0
    async for kind, message in _messages(receive, longest):
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
            batch = await asyncio.to_thread(_batch, stream)  # whoever else asks need not wait for it
            for row in _rows(batch):
                number += 1
                yield number, msgspec.json.encode(_record(row, shape), enc_hook=str)


def _record(row: dict[str, Any], shape: RowShape) -> dict[str, Any]:
    # A number without end would become null in JSON, which is to leave it out: as a text it is refused by its name.
    ends = (math.inf, -math.inf)
    known = {
        name: str(value) if value in ends else value for name, value in row.items() if value is not None and value == value
    }
    if shape.id is not None and shape.id in known:
        known["id"] = known.pop(shape.id)
    rest = {name: known.pop(name) for name in list(known) if name not in shape.fields}
    given = known.get(shape.rest)
    return known | {shape.rest: rest | (given if isinstance(given, dict) else {})} if rest else known


# Messages


async def _messages(receive: Receive, longest: int) -> AsyncIterator[tuple[int, bytes]]:
    """The messages of a stream, whole, each with its kind."""
    body = _Body(receive)
    while head := await body.take(8):
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
    """The body of a request, as far as it is wanted."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._had, self._more = receive, bytearray(), True

    async def take(self, length: int) -> bytes:
        """So many bytes; none, where the body has ended."""
        while len(self._had) < length and self._more:
            part = await self._receive()
            if part["type"] == "http.disconnect":
                message = "the connection ended before the body did; send it again, events under the same event_id"
                raise Problem(HTTPStatus.BAD_REQUEST, message, "$")
            self._had += part.get("body", b"")
            self._more = part.get("more_body", False)
        if not self._had:
            return b""
        if len(self._had) < length:
            raise _no_arrow("it ends in the midst of a message")
        taken = bytes(self._had[:length])
        del self._had[:length]
        return taken


def _described(metadata: bytes) -> tuple[int, int, bool]:
    """The kind of a message, the length of its body, and whether that is compressed: all that is asked before it is read."""
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
    """A table of a flat buffer."""

    def __init__(self, buffer: bytes, place: int) -> None:
        self._buffer, self._place = buffer, place
        self._fields = place - _at(buffer, place, "<i")
        self._size = _at(buffer, self._fields, "<H")

    def _field(self, number: int) -> int:
        entry = 4 + 2 * number
        offset = _at(self._buffer, self._fields + entry, "<H") if entry < self._size else 0
        return self._place + offset if offset else -1

    def number(self, number: int, form: str) -> int:
        """A field that is a number; 0 where it is left out."""
        place = self._field(number)
        return 0 if place < 0 else _at(self._buffer, place, form)

    def table(self, number: int) -> "_Table | None":
        """A field that is a table."""
        place = self._field(number)
        return None if place < 0 else _Table(self._buffer, place + _at(self._buffer, place, "<I"))


def _at(buffer: bytes, place: int, form: str) -> int:
    if place < 0:  # Python would count it from the end
        raise struct.error
    return int(struct.unpack_from(form, buffer, place)[0])


# Rows


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    for first in range(0, batch.num_rows, TOGETHER):
        some = batch.slice(first, TOGETHER)
        try:
            rows = some.to_pylist()
        except (ValueError, OverflowError, LookupError) as error:  # pyarrow's own are ValueErrors
            raise _no_arrow(_unreadable(some, error)) from error
        yield from rows


def _unreadable(batch: Any, error: Exception) -> str:
    """Which column has a value that Python cannot hold: a time beyond the year 9999, or in a zone that nobody knows."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        try:
            column.to_pylist()
        except (ValueError, OverflowError, LookupError):
            kind = f"column {field.name!r} of type {field.type}"
            return f"{kind} has a value that cannot be read; make times of the years 1900 to 2200, in UTC"
    return str(error)


def _batch(stream: bytes) -> Any:
    """The record batch of a stream of one, all of it validated."""
    pa = _pyarrow()
    try:
        with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
            batch = reader.read_next_batch()
        if batch.num_rows > MOST_ROWS:
            message = f"a record batch must not have more than {MOST_ROWS} rows, got {batch.num_rows}; send smaller ones"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "$", {"Connection": "close"})
        if twice := [name for name, times in Counter(batch.schema.names).items() if times > 1]:
            raise _no_arrow(f"column {twice[0]!r} is there {batch.schema.names.count(twice[0])} times; send it once")
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if not _is_plain(pa, field.type):
                raise _no_arrow(
                    f"column {field.name!r} is of type {field.type}; make it text, numbers, times, or lists of them"
                )
            column.validate(full=True)
            if pa.types.is_dictionary(field.type) and (
                max(map(len, column.dictionary.to_pylist()), default=0) > LONGEST_VALUE
            ):
                raise _no_arrow(f"column {field.name!r} has a value of more than {LONGEST_VALUE} bytes")
    except (pa.ArrowException, OSError, ValueError, TypeError, StopIteration, OverflowError) as error:
        raise _no_arrow(str(error).partition("\n")[0][:200]) from error
    return batch


def _pyarrow() -> Any:
    import pyarrow as pa  # who sends no tables need not have it

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
