"""The two roles of a process on a store that several share: one writes, the others follow it."""

from enum import Enum
from typing import NamedTuple

from coldstream.errors import ColdstreamError


class Role(Enum):
    """What a process does with what is written."""

    WRITER = "writer"
    FOLLOWER = "follower"


class Lag(NamedTuple):
    """How far a follower is behind the log; a writer never is."""

    lines: int
    """Lines that are not learned yet, as far as is known."""
    seconds: float
    """Since when it has not known everything there was; 0 where it does."""


class NotTheWriter(ColdstreamError):
    """What is to be written has to be sent to another process. Nothing was written."""
