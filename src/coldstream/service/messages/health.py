"""What the service says of itself: whether it lives, answers, writes or follows, and what it holds."""

from msgspec import Struct


class Starting(Struct, frozen=True):
    """A start that is not over yet."""

    phase: str
    """`recovering` while the log is read, then `compiling`."""
    seconds: float
    """How long the start has been going on; a first start on a machine takes about a minute."""


class StateFingerprint(Struct, frozen=True):
    """What is known at one position, as one number: replicas that hold the same bits have the same."""

    position: int
    """The last line of the log that is learned."""
    fingerprint: str
    """A digest of all that is learned, in hexadecimal digits."""


class LogLag(Struct, frozen=True):
    """How far a replica is behind the log, as far as it knows."""

    lines: int
    """Lines of the log that are not learned here yet."""
    milliseconds: float
    """For how long it has not known everything there was; 0 where it does."""


class Health(Struct, frozen=True):
    """Whether the process is alive, and whether its store takes what is written."""

    status: str
    """`ok`, or `degraded` where the store takes nothing."""
    version: str
    """Of coldstream."""
    store: str
    """`works` or `unavailable`."""
    starting: Starting | None
    """How far the start has come; null once it is over."""
    role: str | None
    """`writer`, or `follower` of another process on the same database; null during the start."""
    position: int | None
    """The last line of the log that is learned; null during the start."""
    lag: LogLag | None
    """How far it is behind; null during the start."""


class Ready(Struct, frozen=True):
    """The service answers, and knows the log up to this position."""

    position: int
    """The last line of the log that is learned."""
