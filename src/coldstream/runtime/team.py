"""Learners that learn a log for the process that answers, as the runtime sees them: it observes, and they learn."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from coldstream.errors import ColdstreamError
from coldstream.recommender import Recommender
from coldstream.runtime.records import Record


class LearnersLost(ColdstreamError):
    """Learners that do not answer: a process was killed, a machine is gone. All of them have to begin again."""


class Team(Protocol):
    """Learners that learn every line of a log for one recommender, which takes over what they learned at a merge."""

    def send(self, lines: Sequence[tuple[int, Record]]) -> None:
        """Let them learn lines, now or later. The recommender has not applied these lines yet."""

    def merge(self) -> None:
        """Take over what they have learned of all lines so far. Raises `LearnersLost` where some do not answer."""

    def close(self) -> None:
        """Let them go."""


Hire: TypeAlias = Callable[[Recommender, int], Team]
"""Makes a team of so many learners that know what a recommender knows."""


class Hiring(NamedTuple):
    """Who learns a log in place of the process that answers."""

    elsewhere: Hire | None = None
    """Makes learners in other processes, which learn the log whatever number of learners it has."""
    here: Hire | None = None
    """Makes learners in this process, for a log of several learners where there are none elsewhere."""
