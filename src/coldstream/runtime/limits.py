"""Limits of a process that serves from a store, and the intervals of its periodic work."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """Limits on queue length, evaluation time and disk space, and the schedule of merges, snapshots and erasure."""

    pending: int = 20_000
    """The largest number of records that may wait to be learned."""
    evaluation_share: float = 0.25
    """The fraction of idle time that may go into ranking events before they are learned; 1 ranks all of them."""
    merge_events: int = 500
    """Events after which parallel learners merge: docs/decisions/several-learners.md."""
    merge_seconds: float = 1.0
    """Seconds after which parallel learners merge if there was any event."""
    snapshot_lines: int = 100_000
    """New log lines after which a snapshot is due; 0 for never."""
    snapshot_seconds: float = 900.0
    """Seconds after which a snapshot is due if there was any new line; 0 for never."""
    erase_seconds: float = 600.0
    """Seconds that a deleted user may wait to be erased from the store, so that several are erased in one pass."""
    retain_seconds: float = 0.0
    """Seconds for which log lines are kept; 0 keeps them for ever."""
    disk_bytes: int = 0
    """The largest size of the store in bytes; 0 for no limit."""
