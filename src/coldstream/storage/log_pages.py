"""A log read page by page, so that nothing is held open in the database while somebody learns from it."""

from collections.abc import Callable, Iterator

from coldstream.storage.store import Entry

PAGE = 2000
"""Lines of a page."""


def lines(page: Callable[[int, int], list[Entry]], after: int, last: int) -> Iterator[Entry]:
    """The lines behind one position and up to another. `page` gives the first of those that are left, none at the end."""
    while entries := page(after, last):
        yield from entries
        after = entries[-1].position
