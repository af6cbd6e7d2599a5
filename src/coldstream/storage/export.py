"""All that a store holds at one moment, whoever writes to it: what backups are made from, and stores filled with."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from coldstream.storage.checksums import Bounds, Row
from coldstream.storage.store import LogLine, Saved


class Contents(NamedTuple):
    """What is there besides the rows of the log and the snapshots' files."""

    bounds: Bounds
    begins: int
    """The checksum that the first row behind the cut continues."""
    kept: list[LogLine]
    marks: list[tuple[int, float]]
    snapshots: list[Saved]
    """Those that the log knows all lines of, the newest first."""


class Export(Protocol):
    """A store as it was at one moment."""

    contents: Contents

    def rows(self) -> Iterator[Row]:
        """The rows behind the cut, in order, each compared with its checksum."""

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        """A file with the content of a snapshot."""
