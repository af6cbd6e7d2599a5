"""The queue of write calls, in order of arrival, with back-pressure."""

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
    """Raised where a call would exceed the limit of records that may wait to be learned."""


Outcome: TypeAlias = int | ColdstreamError | None
"""The outcome of a record: its position, None for a duplicate that the log already has, or the error that refused it."""


@dataclass(slots=True, eq=False)
class Call:
    """A write call: records that wait to be written, and the future that receives their positions."""

    asked: Sequence[Record]
    """The records that the caller passed."""
    answer: "asyncio.Future[list[Outcome]]"
    """The outcomes of the `asked` records, in order."""
    one_by_one: bool = False
    """Whether refused records are skipped and the others written; otherwise all are written or none."""
    records: Sequence[Record] = ()
    """The records to write: those asked for, less refused ones, plus those that the writer adds, such as for sessions."""
    refusals: Mapping[int, ColdstreamError] = field(default_factory=dict)
    """The errors of refused records, by index in `asked`."""

    def __post_init__(self) -> None:
        self.records = self.asked

    def leave_out(self, refusals: Mapping[int, ColdstreamError]) -> None:
        """Skip the refused records, given by index."""
        self.refusals = refusals
        self.records = [record for index, record in enumerate(self.asked) if index not in refusals]

    def give(self, outcome: list[int | None] | ColdstreamError) -> None:
        """Resolve the call with the positions of `records` or with an error, unless its caller has cancelled it."""
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
    """A queue of calls that together hold at most `most` records, or of one call with more."""

    def __init__(self, most: int) -> None:
        self.waiting = 0
        """The number of records that were accepted and not yet taken from the queue."""
        self.wake = asyncio.Event()
        """An event that is set when a call is added; the task that waits for it must clear it."""
        self._most = most
        self._calls: deque[Call] = deque()

    def __bool__(self) -> bool:
        """Return whether any call waits."""
        return bool(self._calls)

    def add(self, records: Sequence[Record], one_by_one: bool = False) -> Call:
        """Append a call, and return it. With `one_by_one`, a refused record does not prevent the others.

        Raises `Overloaded` where other records wait already and the limit would be exceeded.
        """
        if self.waiting and self.waiting + len(records) > self._most:
            raise Overloaded(f"{self.waiting} records wait to be learned, the most is {self._most}; try again later")
        call = Call(records, asyncio.get_running_loop().create_future(), one_by_one)
        self._calls.append(call)
        self.waiting += len(records)
        self.wake.set()
        return call

    async def take(self, group: list[Call], checks: Checks, longest: int) -> None:
        """Move the calls at the head of the queue that can share a commit into `group`, and answer those that are refused.

        No further call is taken once the group has `longest` records. Other tasks run between slices of the checks; at any
        such moment an unanswered call is in the queue or in the group.
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
        """Return calls to the head of the queue, to be checked again after what another process wrote was learned."""
        for call in group:
            call.records, call.refusals = call.asked, {}
        self._calls.extendleft(reversed(group))
        self.waiting += sum(len(call.records) for call in group)

    def refuse_all(self, error: ColdstreamError) -> None:
        """Resolve all waiting calls with an error, when the writer has ended."""
        for call in self._calls:
            call.give(error)
