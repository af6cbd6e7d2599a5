"""Messages of the dashboard's live figures, which it requests once a second."""

from typing import Annotated

from msgspec import Meta, Struct

from coldstream.service.messages.core import MethodMetrics
from coldstream.service.messages.health import LogLag


class LiveQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The sample after which to begin."""

    since: Annotated[int, Meta(ge=-1, le=2**53)] = -1
    """The `seq` of the last sample that the client has; −1 for all there are."""


class Sample(Struct, frozen=True):
    """The figures of the service at one moment."""

    seq: int
    """Number of the sample; it rises from sample to sample, across restarts too."""
    time: float
    """Seconds since 1970."""
    events: int
    """Events learned since the log began."""
    events_per_second: float
    """Events per second learned since the sample before."""
    recommendations_per_second: float
    """Calls of /recommend per second answered since the sample before."""
    p50_ms: float | None
    """Half of the last 1,000 calls of /recommend took at most so many milliseconds."""
    p99_ms: float | None
    """99 % of the last 1,000 calls of /recommend took at most so many milliseconds."""
    features: int
    """Features that have parameters."""
    new_features: int
    """How many of the features are new within the window."""
    sampled: float | None
    """The share of the window's events that were ranked."""
    new_users: float | None
    """The share of the window's events that were a user's first."""
    new_items: float | None
    """The share of the window's events that were an item's first."""
    methods: dict[str, MethodMetrics]
    """By name: coldstream, popularity, recent_popularity."""
    penalties: dict[str, float]
    """Regularization (λ) by field, of the first 64 fields: how strongly parameters are pulled towards zero."""


class Annotation(Struct, frozen=True):
    """A mark on the dashboard's curves: drift was noticed, or new items came."""

    seq: int
    """The `seq` of the sample that it belongs to."""
    events: int
    """Events learned when it happened."""
    kind: str
    """`drift` or `items`."""
    text: str
    """What happened, in words."""


class NewestSnapshot(Struct, frozen=True):
    """The newest snapshot."""

    number: int
    """Number of the snapshot; it rises with every snapshot."""
    position: int
    """The last line of the log that the snapshot holds."""
    seconds_ago: float
    """Seconds since it was taken, or since the service started."""


class MemoryFacts(Struct, frozen=True):
    """Memory of all that is learned and remembered, its bound, and what the bounds kept out or evicted."""

    used: int
    """Bytes in use, by an estimate that is at least what is used."""
    bound: int | None
    """Most bytes that may be used; null where there is no budget."""
    parts: dict[str, int]
    """Bytes in use by purpose: values, fields, users, history, items, neighbours."""
    refused: dict[str, int]
    """Number of new values that were not admitted, by reason: `full` (their field is), `rare` (seen too seldom), `many` (in
    one record) or `fields` (too many undeclared ones)."""
    gone: dict[str, int]
    """Number of values, users and items that were evicted or expired: `values evicted`, `users expired` and so on."""


class ServiceFacts(Struct, frozen=True):
    """The state and the size of the service."""

    version: str
    """The version of coldstream."""
    ready: bool
    """Whether the service answers."""
    store: str
    """`works` or `unavailable`."""
    role: str
    """`writer`, or `follower` of another process on the same database."""
    position: int
    """The last line of the log that is learned."""
    lag: LogLag
    """How far it is behind the log."""
    snapshot: NewestSnapshot | None
    """null where none was taken yet."""
    preset: str
    """The name of the hyperparameters, or `of its own`."""
    items: int
    """Items in the catalogue."""
    users: int
    """Users that are known."""
    features: int
    """Features that have parameters."""
    factors: int
    """The length of a feature's vector."""
    parameters_bytes: int
    """Bytes of the learned parameters: a weight and a vector for every feature."""
    process_bytes: int
    """Bytes of memory of the whole process: interpreter, compiled code, items, users and parameters."""
    memory: MemoryFacts
    """Memory of all that is learned and remembered."""


class LiveResponse(Struct, frozen=True):
    """The state of the service now, and its samples since a given one, for the dashboard."""

    service: ServiceFacts
    """The service as it is now."""
    top: int
    """N of recall@N."""
    window: int
    """T, the number of events that recall and MPR look back on."""
    samples: list[Sample]
    """Samples after `since`, the oldest first; further apart the older they are."""
    marks: list[Annotation]
    """Marks on the curves after `since`: drift, and new items."""
