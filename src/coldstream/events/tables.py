"""Reading table files, CSV, Parquet and JSON-lines, as columns of plain Python values."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyarrow import csv, parquet

from coldstream.errors import InvalidInput, MisreadFile, shown
from coldstream.events.dialect import Dialect, other_separator, require_utf8, unquoted_header, with_decimal_commas

LARGEST = 1e300
"""Bound of the absolute value of numbers; larger ones would overflow in calculations."""

FOUND_OUT = Dialect()
"""The dialect in which separator and encoding are detected."""

_SCALARS = {str, int, bool, float, type(None)}
_ELEMENTS = {str, int, bool}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86400


class Table(NamedTuple):
    """The columns of a file. A missing value is None."""

    path: Path
    numbers: Sequence[int]
    """Number of each row as an editor or a spreadsheet counts."""
    columns: Mapping[str, list[Any]]
    separator: str | None = None
    """Separator of the columns; None if the format has none."""
    left_out: frozenset[str] = frozenset()
    """Columns of the file that were ignored as requested."""

    def column(self, name: str, remedy: str) -> list[Any]:
        """Return a column, or raise `InvalidInput` with this remedy if it is missing."""
        if name not in self.columns:
            raise InvalidInput(f"{self._lacks(name)}; {remedy}")
        return self.columns[name]

    def column_of(self, role: str, name: str) -> list[Any]:
        """Return the column of a role such as user, item or time. Raise `MisreadFile` if it is missing."""
        if name in self.columns:
            return self.columns[name]
        if self.separator is not None and (other := other_separator(list(self.columns), self.separator)):
            raise MisreadFile(self._lacks(name), f"if {other!r} separates the columns, say so", "separator", other)
        raise MisreadFile(self._lacks(name), f"say which one is the {role}", "columns", role)

    def _lacks(self, name: str) -> str:
        return f"{self.path}: no column {name!r}, it has {', '.join(self.columns) or 'none'}"

    def only(self, rows: Sequence[int]) -> "Table":
        """Return a table of the given rows, counted from 0."""
        columns = {name: [column[row] for row in rows] for name, column in self.columns.items()}
        return self._replace(numbers=[self.numbers[row] for row in rows], columns=columns)

    def problem(self, row: int, column: str, rule: str, remedy: str) -> InvalidInput:
        """Return the error to raise for one value."""
        place, value = f"{self.path}, row {self.numbers[row]}", shown(self.columns[column][row])
        return InvalidInput(f"{place}: {column} must be {rule}, got {value}; {remedy}")


class _Reader(Protocol):
    def __call__(self, path: Path, texts: Collection[str], ignore: Collection[str], dialect: Dialect) -> Table: ...


def read_table(path: Path, texts: Collection[str] = (), ignore: Collection[str] = (), dialect: Dialect = FOUND_OUT) -> Table:
    """Read the table in a file. CSV columns among `texts` remain strings; columns among `ignore` are not read.

    Raise `InvalidInput` if the file is missing, of an unknown kind, unreadable, or has values that no field can be made of.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInput(f"{path}: unknown kind of file {path.suffix!r}; known are {', '.join(READERS)}")
    if not path.is_file():
        raise InvalidInput(f"{path}: no such file; give the path of a table ({', '.join(READERS)})")
    try:
        return _checked(reader(path, texts, ignore, dialect))
    except InvalidInput:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InvalidInput(
            f"{path} cannot be read ({str(error) or repr(error)}); mend it, or write the file anew"
        ) from error


def _read_csv(path: Path, texts: Collection[str], ignore: Collection[str], dialect: Dialect) -> Table:
    separator, encoding = dialect.of(path)
    try:
        table = csv.read_csv(
            path,
            csv.ReadOptions(use_threads=False, encoding=encoding),  # one thread, so that errors name their row
            csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string())),
        )
        kinds = list(zip(table.column_names, table.schema.types, strict=True))
    except (ValueError, pa.ArrowException) as error:
        if dialect.encoding is None and encoding == "utf-8":
            require_utf8(path)
        if other := other_separator(unquoted_header(path, encoding).split(separator), separator):
            problem = f"{path} cannot be read ({error})"
            raise MisreadFile(problem, f"if {other!r} separates the columns, say so", "separator", other) from error
        raise
    if any(pa.types.is_binary(kind) and name not in ignore for name, kind in kinds):  # text that is not UTF-8
        require_utf8(path)
    columns = _plain_columns(path, table, ignore)
    blank = {name: [None if value == "" else value for value in column] for name, column in columns.items()}
    if separator != ",":
        blank = {name: column if name in texts else with_decimal_commas(column) for name, column in blank.items()}
    return Table(path, _row_numbers(path, encoding, table.num_rows), blank, separator, _left_out(table.column_names, ignore))


def _read_parquet(path: Path, texts: Collection[str], ignore: Collection[str], dialect: Dialect) -> Table:  # noqa: ARG001 - a _Reader
    with parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        table = file.read([name for name in names if name not in ignore])
    columns = _plain_columns(path, table, ignore)
    return Table(path, range(1, table.num_rows + 1), columns, left_out=_left_out(names, ignore))


def _read_json_lines(path: Path, texts: Collection[str], ignore: Collection[str], dialect: Dialect) -> Table:  # noqa: ARG001 - a _Reader
    # Python's parser, because Arrow's takes strings that look like dates for dates, ids included.
    rows, numbers = [], []
    if dialect.encoding is None:
        require_utf8(path)
    with open(path, encoding=dialect.encoding or "utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                rows.append(_json_row(path, number, line))
                numbers.append(number)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names if name not in ignore}
    return Table(path, numbers, columns, left_out=_left_out(names, ignore))


def _left_out(names: Iterable[str], ignore: Collection[str]) -> frozenset[str]:
    return frozenset(name for name in names if name in ignore)


def _row_numbers(path: Path, encoding: str, rows: int) -> Sequence[int]:
    """Return the line at which each row of a CSV file begins; lines may be empty, and rows may contain line breaks."""
    numbers, quoted = list[int](), False
    with open(path, encoding=encoding, errors="replace", newline="") as file:
        for number, line in enumerate(file, 1):
            if not quoted and line.strip():
                numbers.append(number)
            quoted ^= line.count('"') % 2 == 1
    # If quotes are used in another way, rows are numbered consecutively.
    return numbers[1:] if len(numbers) == rows + 1 else range(2, rows + 2)


READERS: Mapping[str, _Reader] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
}


def _json_row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if "\\u" in line:
            json.dumps(row, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}, row {number}: not valid JSON ({error}), got {shown(line)}; mend the line") from None
    if not isinstance(row, dict):
        raise InvalidInput(f'{path}, row {number}: must be an object, got {shown(row)}; write {{"column": value, …}}')
    return row


def _plain_columns(path: Path, table: pa.Table, ignore: Collection[str]) -> dict[str, list[Any]]:
    for name, times in Counter(table.column_names).items():
        if times > 1:
            raise InvalidInput(f"{path}: column {name!r} is there {times} times; rename or remove all but one")
    return {name: _plain(table[name]) for name in table.column_names if name not in ignore and not _is_index(name)}


def _is_index(name: str) -> bool:
    """Return whether a column is the index that pandas writes by default."""
    return not name or name.startswith("__index_level_")


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; dates and times become seconds, since 1970 or since midnight."""
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if types.is_floating(kind) or types.is_decimal(kind):
        return list(column.cast(pa.float64()).to_pylist())
    if types.is_date(kind):
        return [None if day is None else day * _DAY for day in column.cast(pa.date32()).cast(pa.int32()).to_pylist()]
    if types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        whole = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        return [None if ticks is None else ticks / _PER_SECOND[kind.unit] for ticks in whole]
    return list(column.to_pylist())


def _checked(table: Table) -> Table:
    """Return a cleaned table: NaN, and nulls in lists, count as missing.

    Raise `InvalidInput` for values that no field accepts.
    """
    columns = dict(table.columns)
    cleaned = table._replace(columns=columns)
    for name, column in table.columns.items():
        kinds = set(map(type, column))
        if float in kinds:
            columns[name] = [None if value != value else value for value in column]
        if kinds & {int, float}:
            _require_finite(cleaned, name)
        if kinds - _SCALARS:
            columns[name] = [_known_elements(cleaned, row, name) for row in range(len(column))]
    return cleaned


def _require_finite(table: Table, name: str) -> None:
    for row, value in enumerate(table.columns[name]):
        if isinstance(value, int | float) and not -LARGEST < value < LARGEST:
            raise table.problem(row, name, "a finite number", "leave it empty if it is not known")


def _known_elements(table: Table, row: int, name: str) -> Any:
    value = table.columns[name][row]
    if type(value) in _SCALARS:
        return value
    known = [element for element in value if element is not None] if isinstance(value, list) else [value]
    if not isinstance(value, list) or not set(map(type, known)) <= _ELEMENTS:
        rule = "a string, a number, true/false or a list of strings"
        raise table.problem(row, name, rule, "convert the column, or ignore it")
    return known
