"""Rows of a file that were refused, told by what is wrong with them: one bad column is one thing to say."""

import re
from typing import NamedTuple

MOST_TOLD = 20
"""Things that are told of one file."""

_GIVEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[.*?\]|\d[\d.,]*""")
"""What is a row's own in a message: values and numbers."""
_NO_LIST = re.compile(r"(?P<field>[^\s:]+) must be a list of strings, got ['\"].*; write .*\Z", re.DOTALL)


class _Kind(NamedTuple):
    first: int
    detail: str
    rows: int


class Refusals:
    """What was wrong, each with its first row as an editor counts it and how many rows it is."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def note(self, row: int, detail: str) -> None:
        """A row was refused."""
        detail = detail.removeprefix("$.")  # where it stands in JSON, which the file is not
        like = _GIVEN.sub("…", detail)
        known = self._kinds.get(like)
        self._kinds[like] = known._replace(rows=known.rows + 1) if known else _Kind(row, _as_option(detail), 1)

    def told(self, file: object) -> list[str]:
        """What to say of a file."""
        lines = [f"{file}, {_rows(one)}: {one.detail}" for one in self._kinds.values()]
        more = len(lines) - MOST_TOLD
        return lines if more <= 0 else [*lines[:MOST_TOLD], f"{file}: {more} other things are wrong; mend these first"]


def _rows(kind: _Kind) -> str:
    if kind.rows == 1:
        return f"row {kind.first}"
    return f"row {kind.first} and {kind.rows - 1:,} more"


def _as_option(detail: str) -> str:
    """A remedy in the words of the command: in a file a list is a text that has to be split.

    >>> _as_option("item 'a': genre must be a list of strings, got 'x|y'; write ['x|y']")
    "item 'a': genre must be a list of strings, got 'x|y'; split the column with --list genre"
    """
    if (found := _NO_LIST.search(detail)) is None:
        return detail
    return f"{detail[: detail.rindex('; write ')]}; split the column with --list {found['field']}"
