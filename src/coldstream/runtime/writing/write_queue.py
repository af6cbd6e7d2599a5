"""Those who want something written, in the order in which they came."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from coldstream.errors import ColdstreamError
from coldstream.runtime.records import Record
from coldstream.runtime.turns import in_slices
from coldstream.runtime.writing.checks import Checks, Refused, together


class Overloaded(ColdstreamError):
    """More is waiting to be learned than can be promised."""


Outcome: TypeAlias = int | ColdstreamError | None
"""What became of a record: its position, None where the log had it already, or why it was refused."""


@dataclass(slots=True, eq=False)
class Call:
    """Records that wait to be written, and the future that their positions are given to."""

    asked: Sequence[Record]
    answer: "asyncio.Future[list[Outcome]]"
    one_by_one: bool = False
    """Whether records that are refused are left out; otherwise all are taken or none."""
    records: Sequence[Record] = ()
    """What is written: what was asked for, and what only the writer knows when it comes to it."""
    refusals: Mapping[int, ColdstreamError] = field(default_factory=dict)
    """By index in `asked`, why a record is left out."""

    def __post_init__(self) -> None:
        self.records = self.asked

    def leave_out(self, refusals: Mapping[int, ColdstreamError]) -> None:
        """Leave out the records that are refused."""
        self.refusals = refusals
        self.records = [record for index, record in enumerate(self.asked) if index not in refusals]

    def give(self, outcome: list[int | None] | ColdstreamError) -> None:
        """Answer with the positions of `records`, or with why nothing was written, unless the caller went away."""
        if self.answer.done():
            return
        if isinstance(outcome, ColdstreamError):
            self.answer.set_exception(outcome)
        elif self.refusals:
            positions = iter(outcome)
            refusals = self.refusals
            self.answer.set_result([refusals.get(index) or next(positions) for index in range(len(self.asked))])
        else:
            self.answer.set_result([*outcome])


class WriteQueue:
    """Calls that wait, of no more records than can be promised to be learned."""

    def __init__(self, most: int) -> None:
        self.waiting = 0
        """Records that were accepted and not taken yet."""
        self.wake = asyncio.Event()
        """Set when something has come; whoever waits for it clears it."""
        self._most = most
        self._calls: deque[Call] = deque()

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._calls)

    def add(self, records: Sequence[Record], one_by_one: bool = False) -> Call:
        """Append a call. With `one_by_one`, a record that is refused does not keep out the others."""
        if self.waiting and self.waiting + len(records) > self._most:
            raise Overloaded(f"{self.waiting} records wait to be learned, the most is {self._most}; try again later")
        call = Call(records, asyncio.get_running_loop().create_future(), one_by_one)
        self._calls.append(call)
        self.waiting += len(records)
        self.wake.set()
        return call

    async def take(self, group: list[Call], checks: Checks, longest: int) -> None:
        """Into a group, the calls at the head of the queue that can share a commit, less those that are refused.

        They are checked in slices, between which others have their turn. Whoever waits is in the queue or in the group.
        """
        lines = 0
        while self._calls and lines < longest:
            call = self._calls[0]
            if group and not together(group[0].records[0], call.records[0]):
                break
            try:
                if call.one_by_one:
                    call.leave_out(await in_slices(checks.refusals_in_steps(call.asked)))
                else:
                    await in_slices(checks.check_in_steps(call.records))
                if call.records:
                    group.append(call)
                    lines += len(call.records)
                else:
                    call.give([])
            except Refused as refused:
                call.give(refused)
            self._calls.popleft()
            self.waiting -= len(call.asked)

    def put_back(self, group: Sequence[Call]) -> None:
        """Let calls be checked once more, in view of what others wrote, before those that wait."""
        for call in group:
            call.records, call.refusals = call.asked, {}
        self._calls.extendleft(reversed(group))
        self.waiting += sum(len(call.records) for call in group)

    def refuse_all(self, error: ColdstreamError) -> None:
        """Answer all who wait; nobody comes to them any more."""
        for call in self._calls:
            call.give(error)
