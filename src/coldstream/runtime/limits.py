"""What a process on a store may take, and when it does what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """How much may wait, how much time the live evaluation may take, and when snapshots are due."""

    pending: int = 20_000
    """Records that may wait."""
    evaluation_share: float = 0.25
    """The share of the time that may go into ranking before learning."""
    merge_events: int = 500
    """Events after which learners merge, where there are several: docs/decisions/several-learners.md."""
    merge_seconds: float = 1.0
    """How long they go without it once there was an event."""
    snapshot_lines: int = 100_000
    snapshot_seconds: float = 900.0
    erase_seconds: float = 600.0
    """How long those who are forgotten wait for others, before all of them are erased from the store together."""
    retain_seconds: float = 0.0
    """How long lines are kept; 0 is for ever."""
    disk_bytes: int = 0
    """How much the store may take; 0 is any size."""
