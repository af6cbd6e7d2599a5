"""The interface to a team: parallel learners that train on the log while the answering process only observes events."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from coldstream.errors import ColdstreamError
from coldstream.recommender import Recommender
from coldstream.runtime.records import Record


class LearnersLost(ColdstreamError):
    """Raised where learners do not answer, because a process was killed or a machine is gone. The team must be replaced."""


class Team(Protocol):
    """Parallel learners that train on every line of a log for one recommender, which takes over their result at a merge."""

    def send(self, lines: Sequence[tuple[int, Record]]) -> None:
        """Send lines to the learners, which learn them now or later. The recommender must not have applied them yet."""

    def merge(self) -> None:
        """Merge what the learners learned from all lines so far into the recommender.

        Raises `LearnersLost` where a learner does not answer.
        """

    def close(self) -> None:
        """Stop the learners."""


Hire: TypeAlias = Callable[[Recommender, int], Team]
"""A function that makes a team from a recommender, whose state the learners begin with, and the number of learners."""


class Hiring(NamedTuple):
    """The factories of the team that learns a log in place of the answering process."""

    elsewhere: Hire | None = None
    """Makes learners in other processes. They are used whatever number of learners the log has."""
    here: Hire | None = None
    """Makes learners in this process. They are used for a log of several learners if `elsewhere` is None."""
