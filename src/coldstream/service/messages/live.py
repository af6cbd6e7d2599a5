"""What the page asks for once a second, as types."""

from typing import Annotated

from msgspec import Meta, Struct

from coldstream.service.messages.core import MethodMetrics
from coldstream.service.messages.health import LogLag


class LiveQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The last sample that is known."""

    since: Annotated[int, Meta(ge=-1, le=2**53)] = -1
    """The `seq` of the last sample that is known; −1 for all there are."""


class Sample(Struct, frozen=True):
    """How the service stood at one moment."""

    seq: int
    """Rises from sample to sample, across restarts too."""
    time: float
    """Seconds since 1970."""
    events: int
    """Events learned since the log began."""
    events_per_second: float
    """Since the sample before."""
    recommendations_per_second: float
    """Calls of /recommend answered since the sample before."""
    p50_ms: float | None
    """Half of the last 1,000 calls of /recommend took at most so many milliseconds."""
    p99_ms: float | None
    """99 % of them did."""
    features: int
    """Features that have a column."""
    new_features: int
    """How many of them came within the window."""
    sampled: float | None
    """The share of the window's events that were ranked."""
    new_users: float | None
    """The share of the window's events that were a user's first."""
    new_items: float | None
    """The share of the window's events that were an item's first."""
    methods: dict[str, MethodMetrics]
    """By name: coldstream, popularity, recent_popularity."""
    penalties: dict[str, float]
    """λ by field, of the first 64 fields: how strongly it is pulled towards zero."""


class Annotation(Struct, frozen=True):
    """Something that happened, to be marked on the dashboard's curves: `drift` or `items`."""

    seq: int
    """Of the sample that it belongs to."""
    events: int
    """At which event it happened."""
    kind: str
    """`drift` or `items`."""
    text: str
    """What happened, in words."""


class NewestSnapshot(Struct, frozen=True):
    """The newest snapshot."""

    number: int
    """Rises with every snapshot."""
    position: int
    """The last line of the log that it knows."""
    seconds_ago: float
    """Seconds since it was taken, or since the service started."""


class MemoryFacts(Struct, frozen=True):
    """What is learned and remembered, and its bounds."""

    used: int
    """Bytes, by our own costs."""
    bound: int | None
    """The most that it may weigh; null where there is no budget."""
    parts: dict[str, int]
    """Bytes by what they are for: values, fields, users, history, items, neighbours."""
    refused: dict[str, int]
    """What was new and was left out, by reason: full, rare, many or fields."""
    gone: dict[str, int]
    """What had to go: values and users, evicted and expired."""


class ServiceFacts(Struct, frozen=True):
    """What the service is, and how large."""

    version: str
    """Of coldstream."""
    ready: bool
    """Whether it answers."""
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
    """In the catalogue."""
    users: int
    """That are known."""
    features: int
    """That have a column."""
    factors: int
    """The length of a feature's vector."""
    parameters_bytes: int
    """What was learned: a weight and a vector for every feature."""
    process_bytes: int
    """The memory of the whole process: interpreter, compiled code, items, users, and what was learned."""
    memory: MemoryFacts
    """What is learned and remembered, and its bounds."""


class LiveResponse(Struct, frozen=True):
    """How the service fared since a sample, for the page."""

    service: ServiceFacts
    """The service as it is now."""
    top: int
    """N of recall@N."""
    window: int
    """T, the number of events that recall and MPR look back on."""
    samples: list[Sample]
    """Behind `since`, the oldest first; further apart the longer ago."""
    marks: list[Annotation]
    """What happened on the way."""
