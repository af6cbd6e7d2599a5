"""Messages about events, items, users and the service, and types that all messages share.

The decoder validates requests by these types, and the OpenAPI document is made from them.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import force_setattr

MOST_RECORDS = 1000
"""Most events, items or users in one call."""
MOST_ITEMS = 1000
"""Most items that one recommendation may ask for."""
MOST_FILTERED = 10_000
"""Most ids in `allow`, `deny` or `history` of a request."""
MOST_PASSED_OVER = 100
"""Most items that an event may name as passed over: shown and not taken."""
MOST_FIELDS, MOST_VALUES = 64, 256
"""Most fields in attributes or a context, and most values in one field."""
MOST_ASKED = 4096
"""Most values in the context, the attributes and the filter of one request together."""
MOST_EXPLAINED, MOST_TERMS = 100, 5000
"""Most items that one recommendation may explain, and most terms that it gives for all of them together."""
MOST_RULED = 100
"""Most items that one recommendation with rules may ask for: each may cost a scan of all items."""
MOST_DESCRIBED = 4 * 2**20
"""Most bytes that the attributes of all items of one recommendation may take."""
MOST_SCHEMA_FIELDS, MOST_SCHEMA_VALUES = 256, 50
"""Most fields in one page of the schema, and most values that it gives of each."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
"""An id. PostgreSQL indexes at most 2,700 bytes, and a character takes up to four."""
Text: TypeAlias = Annotated[str, Meta(max_length=1024)]
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Number: TypeAlias = Annotated[float, Meta(ge=-1e300, le=1e300)]
Scalar: TypeAlias = Text | Whole | Number | bool
Value: TypeAlias = Scalar | Annotated[list[Scalar], Meta(max_length=MOST_VALUES)]
Fields: TypeAlias = Annotated[dict[Name, Value], Meta(max_length=MOST_FIELDS)]
"""Attributes or a context: field → value. They are checked against the schema later."""
Time: TypeAlias = Annotated[float, Meta(gt=-1e15, lt=1e15)] | Annotated[datetime, Meta(tz=True)]
"""Seconds since 1970 in UTC, or an ISO 8601 time with its zone."""
Condition: TypeAlias = Annotated[dict[Name, Value], Meta(max_length=8)]
"""A condition on an item's field: `any`, `all` or `not` of values, `min` and `max` of a number."""
Where: TypeAlias = Annotated[dict[Name, Value | Condition], Meta(max_length=MOST_FIELDS)]
"""Item field → value, list of values, or condition."""
if TYPE_CHECKING:
    Identifier: TypeAlias = str  # its type once a message is decoded
else:
    Identifier = Name | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An id, or a whole number: 7 is the same as "7". Messages convert it to a text (`as_text`)."""
Filter: TypeAlias = Annotated[list[Identifier], Meta(max_length=MOST_FILTERED)]
"""A list of ids of items."""
Place: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
"""A number of entries before a page, or a position of the log."""


def as_text(given: Struct, *names: str) -> None:
    """Convert ids that are whole numbers to texts, in the fields `names` of a message that was just decoded."""
    for name in names:
        value = getattr(given, name)
        if isinstance(value, int):
            force_setattr(given, name, str(value))
        elif isinstance(value, list) and any(isinstance(own, int) for own in value):
            force_setattr(given, name, [str(own) for own in value])


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object. The body may be left out, its Content-Type may not."""


class Attributes(Struct, frozen=True, forbid_unknown_fields=True):
    """The attributes of a user; those that are left out are unknown."""

    attributes: Fields = {}
    """Field → value, as the schema declares them: a text, a number, true/false, or a list of them for a set."""


class ItemBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The attributes of an item, and when it may be recommended. A put replaces all of them."""

    attributes: Fields = {}
    """Field → value, as the schema declares them: a text, a number, true/false, or a list of them for a set."""
    available_from: Time | None = None
    """From when on it may be recommended; always, if left out."""
    available_until: Time | None = None
    """Until when it may be recommended; for ever, if left out."""
    hidden: bool = False
    """Whether it is not recommended at any time. What was learned of it stays, and events with it are learned."""


class NewItem(Struct, frozen=True, forbid_unknown_fields=True):
    """An item, its attributes, and when it may be recommended."""

    id: Identifier
    """Your own name of the item."""
    attributes: Fields = {}
    """Field → value, as the schema declares the item's; those that are left out are unknown."""
    available_from: Time | None = None
    """From when on it may be recommended; always, if left out."""
    available_until: Time | None = None
    """Until when it may be recommended; for ever, if left out."""
    hidden: bool = False
    """Whether it is not recommended at any time. What was learned of it stays, and events with it are learned."""

    def __post_init__(self) -> None:
        as_text(self, "id")


class NewUser(Struct, frozen=True, forbid_unknown_fields=True):
    """A user and their attributes."""

    id: Identifier
    """Your own name of the user."""
    attributes: Fields = {}
    """Field → value, as the schema declares the user's; those that are left out are unknown."""

    def __post_init__(self) -> None:
        as_text(self, "id")


class MergedSession(Struct, frozen=True, forbid_unknown_fields=True):
    """A session to merge into the user who has logged in from it."""

    session: Identifier
    """The id of the session, which its events gave as their `user`."""

    def __post_init__(self) -> None:
        as_text(self, "session")


class NewEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """A user chose an item."""

    user: Identifier
    """Id of the user who chose; an unknown one becomes a new user."""
    item: Identifier
    """Id of the item that was chosen; an unknown one becomes a new item, unless the schema says otherwise."""
    time: Time | None = None
    """When; now, if left out."""
    context: Fields = {}
    """Field → value: the circumstances. What the schema does not declare is admitted, unless it says otherwise."""
    event_id: Name | None = None
    """A name of your own for the event: sent again under the same name, it is learned once. It must not begin with `nats:`,
    `kafka:` or `outbox:`, which name messages of a broker."""
    kind: Name | None = None
    """What kind of event it is, of those that the schema declares as feedback: a view, a dislike. A plain choice, if left
    out."""
    recommendation_id: Name | None = None
    """The recommendation_id of the answer that the item was taken from, where there was one."""
    passed_over: Annotated[list[Identifier], Meta(max_length=MOST_PASSED_OVER)] = []
    """Items that were shown above this one and not taken, in order; if left out, those that recommendation_id tells of."""

    def __post_init__(self) -> None:
        as_text(self, "user", "item", "passed_over")


Items: TypeAlias = NewItem | Annotated[list[NewItem], Meta(min_length=1, max_length=MOST_RECORDS)]
Users: TypeAlias = NewUser | Annotated[list[NewUser], Meta(min_length=1, max_length=MOST_RECORDS)]
Events: TypeAlias = NewEvent | Annotated[list[NewEvent], Meta(min_length=1, max_length=MOST_RECORDS)]


class Described(Struct, frozen=True):
    """A user, as they were put."""

    id: str
    """Their id."""
    attributes: dict[str, Any]
    """Field → value, as they were put last."""


class DescribedItem(Struct, frozen=True):
    """An item, as it was put."""

    id: str
    """Its id."""
    attributes: dict[str, Any]
    """Field → value, as they were put last."""
    available_from: float | UnsetType = UNSET
    """From when on it may be recommended, in seconds since 1970; left out where it always may."""
    available_until: float | UnsetType = UNSET
    """Until when it may be recommended, in seconds since 1970; left out where it may for ever."""
    hidden: bool | UnsetType = UNSET
    """True where it is not recommended at any time; left out otherwise."""


class Written(Struct, frozen=True):
    """Number of records written, and position of the log after the last of them."""

    written: int
    """Number of records written."""
    position: int
    """Position of the log after the last of them."""


class Learned(Struct, frozen=True):
    """Number of events that were learned, number of duplicates, and position of the log after the last of them."""

    learned: int
    """Number of new events, which were logged and learned."""
    duplicates: int
    """Number of events that changed nothing, because their event_id was learned before."""
    position: int
    """Position of the log after the last of them."""


class RefusedLine(Struct, frozen=True, omit_defaults=True):
    """A line that was not taken."""

    line: int
    """Number of the line, from 1."""
    detail: str
    """What is wrong, with the value and the remedy."""
    field: str | None = None
    """Place in the line, as a path."""


class LinesTaken(Struct, frozen=True):
    """Counts of the lines of JSON-lines, or the rows of an Arrow stream: taken, duplicate or refused."""

    lines: int
    """Number of lines, without empty ones."""
    taken: int
    """Number of lines that are new: logged, and learned."""
    duplicates: int
    """Number of events that changed nothing, because their event_id was learned before."""
    refused: int
    """Number of lines that were not taken."""
    refusals: list[RefusedLine]
    """The first refused lines, 100 at most, and why; others are only counted."""
    position: int
    """Position of the log after the last of them."""


class Forgotten(Struct, frozen=True):
    """The line of the log that forgets a user, which is durable, and when the erasure from files begins."""

    position: int
    """The line of the log that forgets the user. From it on no answer uses data of the user, and no restart restores it."""
    erasure_begins_within: float
    """Seconds until the erasure of the user from log and snapshots begins; /metrics shows when it is done."""


class SnapshotTaken(Struct, frozen=True):
    """The number of a snapshot, and the position in the log that it stands for."""

    number: int
    """Number of the snapshot; it rises with every snapshot."""
    position: int
    """The last line of the log that the snapshot holds."""


class MethodMetrics(Struct, frozen=True):
    """recall@N/T and the mean percentile rank (0 is best, 50 is chance) in the window."""

    recall: float | None
    """Share of the tested events whose item was among the first N; null before any was tested."""
    mpr: float | None
    """Mean rank of the items of tested events, in percent of the catalogue: 0 is best, 50 is chance."""


class PositionMetrics(Struct, frozen=True):
    """How often items were shown at a position, and taken from it."""

    position: int
    """The position in a list; 1 is the first."""
    shown: int
    """Items that were shown there, in answers that were remembered."""
    taken: int
    """How many of these items an event took, with the recommendation_id of the answer."""


class EvaluationResponse(Struct, frozen=True):
    """Quality of the recommender and its baselines on the last T events, each ranked before it was learned."""

    top: int
    """N of recall@N."""
    window: int
    """T, the number of latest events that the metrics are of."""
    events: int
    """Number of all events so far."""
    tested: int
    """Number of events that were ranked before they were learned."""
    sampled: float | None
    """The share of the window's events that were ranked."""
    new_users: float | None
    """The share of the window's events that were a user's first."""
    new_items: float | None
    """The share of the window's events that were an item's first."""
    methods: dict[str, MethodMetrics]
    """By name: coldstream, popularity, recent_popularity."""
    positions: list[PositionMetrics] | UnsetType = UNSET
    """Click-through by position, of the lists that are kept; left out where no answer was remembered."""


NewField: TypeAlias = Annotated[dict[Name, Value], Meta(max_length=16)]
"""The kind of a field and its options, as in a schema: `{"kind": "number", "low": 0, "high": 5}`."""
NewSide: TypeAlias = Annotated[dict[Name, NewField], Meta(max_length=MOST_FIELDS)]


class NewFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields to be declared, by side: field → kind and options."""

    user: NewSide = {}
    """Attributes of users."""
    item: NewSide = {}
    """Attributes of items."""
    context: NewSide = {}
    """Fields of the context."""
