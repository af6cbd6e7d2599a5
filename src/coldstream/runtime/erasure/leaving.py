"""Those who leave: people who are to be erased, and the sessions that were folded into them.

Nobody has to remember who was folded into whom: the log says it, which is read for an erasure anyway. It is read backwards,
so that a session is known to leave before its own lines come. Of lines that are deleted, what is kept of them says it.
"""

from collections.abc import Iterable, Mapping

from coldstream.runtime.erasure.claims import claimed, session_digest
from coldstream.runtime.records import Record, UserMerged
from coldstream.storage.store import LogLine
from coldstream.support.steps import Steps

STEP = 500
"""Lines of what is kept that are looked at in one step."""


class Leaving:
    """People, each of whom leaves up to a position: whoever came back after it is somebody else."""

    def __init__(self, people: Mapping[str, int]) -> None:
        self.people = dict(people)
        """With the sessions that were found, each up to the line that folded it into somebody who leaves."""

    def has_left(self, person: str, position: int) -> bool:
        """Whether a line of a person's goes."""
        return position <= self.people.get(person, 0)

    def follow(self, position: int, record: Record) -> None:
        """One more line, which may say that a session leaves; lines that come after it were followed before."""
        if isinstance(record, UserMerged) and self.has_left(record.into, position):
            self.people[record.id] = max(position, self.people.get(record.id, 0))

    def follow_kept(self, kept: Iterable[LogLine]) -> Steps[None]:
        """What is kept of deleted lines. Of sessions that it tells of, no line is left: they leave up to position 0."""
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
