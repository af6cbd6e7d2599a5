"""Messages about the state of the service: health, readiness, lag and fingerprint."""

from msgspec import Struct


class Starting(Struct, frozen=True):
    """A start in progress."""

    phase: str
    """`recovering` while the log is read, then `compiling`."""
    seconds: float
    """Seconds since the start began; a first start on a machine takes about a minute."""


class StateFingerprint(Struct, frozen=True):
    """A digest of the state learned at a position: replicas whose states have the same bits have the same digest."""

    position: int
    """The last line of the log that is learned."""
    fingerprint: str
    """A digest of all that is learned, in hexadecimal digits."""


class LogLag(Struct, frozen=True):
    """Lag of a process behind the log, as far as the process knows."""

    lines: int
    """Lines of the log that are not learned here yet."""
    milliseconds: float
    """For how long it has been behind the log; 0 where it is not."""


class Health(Struct, frozen=True):
    """Health of the process: its start, its role, its store, and its lag behind the log."""

    status: str
    """`ok`, or `degraded` where the store takes nothing."""
    version: str
    """The version of coldstream."""
    store: str
    """`works` or `unavailable`."""
    starting: Starting | None
    """How far the start has come; null once it is over."""
    role: str | None
    """`writer`, or `follower` of another process on the same database; null during the start."""
    position: int | None
    """The last line of the log that is learned; null during the start."""
    lag: LogLag | None
    """How far it is behind the log; null during the start."""


class Ready(Struct, frozen=True):
    """The service answers, and has learned the log up to this position."""

    position: int
    """The last line of the log that is learned."""
