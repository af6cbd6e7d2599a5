"""The two roles of a process on a shared store: writer or follower."""

from enum import Enum
from typing import NamedTuple

from coldstream.errors import ColdstreamError


class Role(Enum):
    """The role of a process on a shared store: one process writes, the others follow it."""

    WRITER = "writer"
    FOLLOWER = "follower"


class Lag(NamedTuple):
    """The lag of a follower behind the log; both fields are 0 for a writer."""

    lines: int
    """The number of lines known to be in the log and not learned yet."""
    seconds: float
    """The seconds since the follower was last level with the log; 0 while it is level."""


class NotTheWriter(ColdstreamError):
    """Raised by a process that is not the writer. Nothing was written; the records must be sent to the writer."""
