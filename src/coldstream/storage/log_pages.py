"""Paged reading of the log, so that no database transaction stays open while a model learns from the lines."""

import math
from collections.abc import Callable, Iterator

from coldstream.errors import StoreDamaged
from coldstream.storage.checksums import FIRST, REMEDY, Bounds, Row, check_row
from coldstream.storage.store import Entry

PAGE = 2000
"""Number of lines read per page."""


def lines(
    page: Callable[[int, int], list[Row]], bounds: Callable[[], Bounds], after: int, until: int | None = None
) -> Iterator[Entry]:
    """Yield the lines after a position, each verified against its checksum; purged and deleted lines are left out.

    `page` returns the first rows between two positions, and `bounds` the current bounds of the log. Lines are read up to the
    position `until`, or all lines that existed at the time of the call. Raises `StoreDamaged` if a line is missing or
    changed.
    """
    begun = bounds()
    return _lines(page, bounds, begun, max(after, begun.cut), math.inf if until is None else until)


def rows(page: Callable[[int, int], list[Row]], bounds: Bounds, after: int) -> Iterator[Row]:
    """Yield the rows after a position, purged ones too, each verified against its checksum.

    The position must not precede the cut.
    """
    if after >= bounds.last:
        return
    before = _checksum(page(after, after), after) if after else FIRST
    while after < bounds.last:
        found = page(after + 1, bounds.last)
        if not found:
            raise StoreDamaged(f"the log ends at line {after}, and should at line {bounds.last}; {REMEDY}")
        for row in found:
            check_row(row, after, before)
            after, before = row.position, row.checksum
            yield row
    if before != bounds.checksum:
        raise StoreDamaged(f"line {after} of the log, which is the last, is not what was written; {REMEDY}")


def _lines(
    page: Callable[[int, int], list[Row]], now: Callable[[], Bounds], begun: Bounds, after: int, until: float
) -> Iterator[Entry]:
    while after < until:
        try:
            for row in rows(page, begun, after):
                after = row.position
                if row.body is not None:
                    yield Entry(row.position, row.body)
                if after == until:
                    return
        except StoreDamaged:
            cut = now().cut
            if cut <= after:
                raise
            after = cut  # lines were deleted during the read, which is not damage
        else:
            return


def _checksum(rows: list[Row], position: int) -> int:
    if not rows:
        raise StoreDamaged(f"line {position} of the log is missing; {REMEDY}")
    return rows[0].checksum
