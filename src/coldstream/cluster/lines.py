"""Lines of a log on their way to learners, encoded as in the log, in one array."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from coldstream.runtime.records import Record, team_decoder
from coldstream.support.arrays import Flags, Longs

_encoder = msgspec.json.Encoder()

LONGEST_BATCH = 4096
"""Most lines of one batch: enough to share the cost of a call, few enough to be decoded while others learn."""


class Lines(NamedTuple):
    """A batch of log lines, in order."""

    position: Longs
    body: Flags
    """Texts of all lines, separated by line ends, so that one call decodes them all."""

    @classmethod
    def of(cls, lines: Iterable[tuple[int, Record]]) -> "Lines":
        """Encode records with their positions."""
        given = list(lines)
        body = np.frombuffer(_encoder.encode_lines([record for _, record in given]), np.uint8)
        return cls(np.array([position for position, _ in given], np.int64), body)

    def records(self) -> list[tuple[int, Record]]:
        """Decode the records with their positions."""
        return list(zip(self.position.tolist(), team_decoder().decode_lines(self.body.data), strict=True))


def batches(lines: Sequence[tuple[int, Record]]) -> Iterator[Sequence[tuple[int, Record]]]:
    """Split lines into batches. A record that is no event or put is a batch alone: a batch is scanned before learning."""
    first = 0
    for at, (_, record) in enumerate(lines):
        alone = not record.applied_together
        if (alone or at - first >= LONGEST_BATCH) and at > first:
            yield lines[first:at]
            first = at
        if alone:
            yield lines[at : at + 1]
            first = at + 1
    if first < len(lines):
        yield lines[first:]
