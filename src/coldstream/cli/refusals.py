"""A summary of refused rows, grouped by the kind of error, so that one bad column gives one message."""

import re
from typing import NamedTuple

MOST_TOLD = 20
"""Maximal number of distinct errors reported per file."""

_GIVEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[.*?\]|\d[\d.,]*""")
"""Matches the parts of a message that are specific to a row: values and numbers."""
_NO_LIST = re.compile(r"(?P<field>[^\s:]+) must be a list of strings, got ['\"].*; write .*\Z", re.DOTALL)


class _Kind(NamedTuple):
    first: int
    detail: str
    rows: int


class Refusals:
    """Distinct errors, each with the first row it occurred in (numbered as in an editor) and the number of rows."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def note(self, row: int, detail: str) -> None:
        """Record that a row was refused."""
        detail = detail.removeprefix("$.")  # the root of a JSON path, which has no meaning for a row of a file
        like = _GIVEN.sub("…", detail)
        known = self._kinds.get(like)
        self._kinds[like] = known._replace(rows=known.rows + 1) if known else _Kind(row, _as_option(detail), 1)

    def told(self, file: object) -> list[str]:
        """Return the messages about a file."""
        lines = [f"{file}, {_rows(one)}: {one.detail}" for one in self._kinds.values()]
        more = len(lines) - MOST_TOLD
        return lines if more <= 0 else [*lines[:MOST_TOLD], f"{file}: {more} other things are wrong; mend these first"]


def _rows(kind: _Kind) -> str:
    if kind.rows == 1:
        return f"row {kind.first}"
    return f"row {kind.first} and {kind.rows - 1:,} more"


def _as_option(detail: str) -> str:
    """Replace a remedy for JSON lists by the option of the command that splits a column.

    >>> _as_option("item 'a': genre must be a list of strings, got 'x|y'; write ['x|y']")
    "item 'a': genre must be a list of strings, got 'x|y'; split the column with --list genre"
    """
    if (found := _NO_LIST.search(detail)) is None:
        return detail
    return f"{detail[: detail.rindex('; write ')]}; split the column with --list {found['field']}"
