"""The set of people to erase: deleted users, and the sessions that were merged into them.

Which session was merged into which user is found in the log, which an erasure reads anyway. The log is read backwards, so
that a merge is read before the session's own lines. For lines that were deleted by compaction, the kept claims tell.
"""

from collections.abc import Iterable, Mapping

from coldstream.runtime.erasure.claims import claimed, session_digest
from coldstream.runtime.records import Record, UserMerged
from coldstream.storage.store import LogLine
from coldstream.support.steps import Steps

STEP = 500
"""The number of kept claims that are processed in one step."""


class Leaving:
    """People to erase, each up to a log position; lines after it belong to a new person with the same id."""

    def __init__(self, people: Mapping[str, int]) -> None:
        self.people = dict(people)
        """Positions by id, including merged sessions; a session is erased up to the line that merged it."""

    def has_left(self, person: str, position: int) -> bool:
        """Return whether a person's line at a position is to be erased."""
        return position <= self.people.get(person, 0)

    def follow(self, position: int, record: Record) -> None:
        """Process a line, which may merge a session into a person to erase. Lines must be given in descending order."""
        if isinstance(record, UserMerged) and self.has_left(record.into, position):
            self.people[record.id] = max(position, self.people.get(record.id, 0))

    def follow_kept(self, kept: Iterable[LogLine]) -> Steps[None]:
        """Find merged sessions in the claims kept of deleted lines, in steps.

        No lines of these sessions are left, so they are added with position 0.
        """
        folded, names = dict[str, set[int]](), dict[int, str]()
        for number, claim in enumerate(claimed(kept)):
            if claim.person is not None:
                names[session_digest(claim.person)] = claim.person
                if claim.sessions:
                    folded.setdefault(claim.person, set()).update(claim.sessions)
            if number % STEP == STEP - 1:
                yield
        found = list(self.people) if folded else []
        while found:
            sessions = {names[one] for one in folded.get(found.pop(), ()) if one in names}
            new = sessions.difference(self.people)
            self.people.update(dict.fromkeys(new, 0))
            found += new
