"""A log read page by page, so that nothing is held open in the database while somebody learns from it."""

import math
from collections.abc import Callable, Iterator

from coldstream.errors import StoreDamaged
from coldstream.storage.checksums import FIRST, REMEDY, Bounds, Row, check_row
from coldstream.storage.store import Entry

PAGE = 2000
"""Lines of a page."""


def lines(
    page: Callable[[int, int], list[Row]], bounds: Callable[[], Bounds], after: int, until: int | None = None
) -> Iterator[Entry]:
    """The lines behind a position that are neither purged nor cut off, each compared with its checksum; none may be missing.

    They are all, or those up to another position.
    `page` gives the first rows from one position to another, and `bounds` what holds of the log now.
    """
    begun = bounds()
    return _lines(page, bounds, begun, max(after, begun.cut), math.inf if until is None else until)


def rows(page: Callable[[int, int], list[Row]], bounds: Bounds, after: int) -> Iterator[Row]:
    """The rows behind a position that is not before the cut, purged or not, each compared with its checksum."""
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
            after = cut  # lines were deleted while they were read, which is no damage
        else:
            return


def _checksum(rows: list[Row], position: int) -> int:
    if not rows:
        raise StoreDamaged(f"line {position} of the log is missing; {REMEDY}")
    return rows[0].checksum
