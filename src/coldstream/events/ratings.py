"""Rating files: a line per rating, with user, item, rating and time between separators."""

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from coldstream.events.event import Event


def lines(path: Path, separator: str, encoding: str) -> Iterator[list[str]]:
    """Yield the fields of every line that is not empty."""
    # Iterating over a file, unlike str.splitlines, keeps Latin-1's 0x85 and similar characters inside a title.
    with open(path, encoding=encoding) as file:
        for line in file:
            if line != "\n":
                yield line.rstrip("\n").split(separator)


def liked(path: Path, separator: str, at_least: int) -> list[Event]:
    """Return an event for each rating of `at_least` or more, sorted by time; equal times keep the order of the file."""
    events = [
        Event(user, item, float(time))
        for user, item, rating, time in lines(path, separator, "ascii")
        if int(rating) >= at_least
    ]
    return sorted(events, key=attrgetter("time"))
