"""A log read page by page, so that nothing is held open in the database while somebody learns from it."""

from collections.abc import Callable, Iterator

from coldstream.errors import StoreDamaged
from coldstream.storage.checksums import FIRST, REMEDY, Bounds, Row, check_row
from coldstream.storage.store import Entry

PAGE = 2000
"""Lines of a page."""


def lines(page: Callable[[int, int], list[Row]], after: int, bounds: Bounds) -> Iterator[Entry]:
    """The lines behind a position that are not purged, each compared with its checksum. None may be missing.

    `page` gives the first rows from one position to another.
    """
    if after >= bounds.last:
        return
    before = _checksum(page(after, after), after) if after else FIRST
    while after < bounds.last:
        rows = page(after + 1, bounds.last)
        if not rows:
            raise StoreDamaged(f"the log ends at line {after}, and should at line {bounds.last}; {REMEDY}")
        for row in rows:
            check_row(row, after, before)
            after, before = row.position, row.checksum
            if row.body is not None:
                yield Entry(row.position, row.body)
    if before != bounds.checksum:
        raise StoreDamaged(f"line {after} of the log, which is the last, is not what was written; {REMEDY}")


def _checksum(rows: list[Row], position: int) -> int:
    if not rows:
        raise StoreDamaged(f"line {position} of the log is missing; {REMEDY}")
    return rows[0].checksum
