"""Writing Parquet and JSON-lines files row by row: complete or not at all, and readable by their owner alone."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
from pyarrow import parquet

from coldstream.errors import InvalidInput
from coldstream.support.files import private

TOGETHER = 50_000
"""Rows per row group in Parquet."""

_TYPES = {"text": pa.string(), "number": pa.float64(), "flag": pa.bool_(), "texts": pa.list_(pa.string())}


class TableWriter(Protocol):
    """A table file open for writing."""

    def write(self, row: Mapping[str, Any], /) -> None:
        """Write a row. Values without a column in the table are ignored, columns without a value are missing."""


class _Parquet:
    def __init__(self, file: parquet.ParquetWriter, columns: Mapping[str, str]) -> None:
        self._file, self._columns = file, columns
        self._rows: dict[str, list[Any]] = {name: [] for name in columns}
        self._count = 0

    def write(self, row: Mapping[str, Any], /) -> None:
        for name, kind in self._columns.items():
            self._rows[name].append(_as(kind, row.get(name)))
        self._count += 1
        if self._count == TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        if self._count:
            arrays = [pa.array(self._rows[name], _TYPES[kind]) for name, kind in self._columns.items()]
            self._file.write_table(pa.table(arrays, list(self._columns)))
        self._rows, self._count = {name: [] for name in self._columns}, 0


class _JsonLines:
    def __init__(self, file: IO[str], columns: Mapping[str, str]) -> None:
        self._file, self._columns = file, columns

    def write(self, row: Mapping[str, Any], /) -> None:
        known = {name: row[name] for name in self._columns if row.get(name) is not None}
        self._file.write(json.dumps(known, ensure_ascii=False) + "\n")


@contextmanager
def _parquet(path: Path, columns: Mapping[str, str]) -> Iterator[TableWriter]:
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    with private(path) as temporary, parquet.ParquetWriter(temporary, schema) as file:
        writer = _Parquet(file, columns)
        yield writer
        writer.flush()


@contextmanager
def _json_lines(path: Path, columns: Mapping[str, str]) -> Iterator[TableWriter]:
    with private(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        yield _JsonLines(file, columns)


Writing = Callable[[Path, Mapping[str, str]], AbstractContextManager[TableWriter]]

WRITERS: Mapping[str, Writing] = {".parquet": _parquet, ".jsonl": _json_lines}


def writer_of(path: Path) -> Writing:
    """Return the writer for a file's extension: a function of the path and of the kind of each column.

    Raise `InvalidInput` if the extension is unknown.
    """
    writing = WRITERS.get(path.suffix.lower())
    if writing is None:
        raise InvalidInput(f"{path}: unknown kind of file {path.suffix!r}; known are {', '.join(WRITERS)}")
    return writing


def _as(kind: str, raw: Any) -> Any:
    """Convert a value to its column's type; a category may be given as a number or true/false."""
    if raw is None:
        return None
    if kind == "texts":
        return [_text(one) for one in (raw if isinstance(raw, list | tuple) else [raw])]
    if kind == "text":
        return _text(raw)
    return bool(raw) if kind == "flag" else float(raw)


def _text(raw: Any) -> str:
    return str(raw).lower() if isinstance(raw, bool) else str(raw)
