"""A consistent export of a whole store: the source of backups, and of stores that are filled from another store."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from coldstream.storage.checksums import Bounds, Row
from coldstream.storage.store import LogLine, Saved


class Contents(NamedTuple):
    """The contents of a store except the rows of its log and the files of its snapshots."""

    bounds: Bounds
    begins: int
    """The checksum of the line at the cut, which the first row after the cut continues."""
    kept: list[LogLine]
    marks: list[tuple[int, float]]
    snapshots: list[Saved]
    """The snapshots whose position lies between the base and the end of the log, the newest first."""


class Export(Protocol):
    """A store as it was at one moment, while its writer may go on."""

    contents: Contents

    def rows(self) -> Iterator[Row]:
        """Yield the rows after the cut, in order, each verified against its checksum."""

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        """Open a file with the content of a snapshot, as a context manager."""
