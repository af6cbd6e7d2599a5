"""What goes in and out, as types. The decoder enforces them, and the OpenAPI document is made from them."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

MOST_RECORDS = 1000
"""Events, items or users in one call."""
MOST_ITEMS = 1000
"""Items that one recommendation may ask for."""
MOST_FILTERED = 10_000
"""Ids in a list to keep to, or to leave out."""
MOST_FIELDS, MOST_VALUES = 64, 256
"""Fields in attributes or a context, and values in one field."""
MOST_ASKED = 4096
"""Values in the context, the attributes and the filter of one request together."""
MOST_EXPLAINED, MOST_TERMS = 100, 5000
"""Items that one recommendation may explain, and terms that it gives for all of them together."""
MOST_DESCRIBED = 4 * 2**20
"""Bytes that the attributes of all items of one recommendation may take."""
MOST_SCHEMA_FIELDS, MOST_SCHEMA_VALUES = 256, 50
"""Fields in one page of the schema, and values that it tells of each."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
"""An id. PostgreSQL indexes at most 2,700 bytes, and a character takes up to four."""
Text: TypeAlias = Annotated[str, Meta(max_length=1024)]
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Number: TypeAlias = Annotated[float, Meta(ge=-1e300, le=1e300)]
Scalar: TypeAlias = Text | Whole | Number | bool
Value: TypeAlias = Scalar | Annotated[list[Scalar], Meta(max_length=MOST_VALUES)]
Fields: TypeAlias = Annotated[dict[Name, Value], Meta(max_length=MOST_FIELDS)]
"""Attributes or a context: field → value. What the schema says of them is checked later."""
Time: TypeAlias = Annotated[float, Meta(gt=-1e15, lt=1e15)] | Annotated[datetime, Meta(tz=True)]
"""Seconds since 1970 in UTC, or an ISO 8601 time with its zone."""
Filter: TypeAlias = Annotated[list[Name], Meta(max_length=MOST_FILTERED)]
Place: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
"""Where a page begins."""


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing: the call says all. The body may be left out, its Content-Type may not."""


class Attributes(Struct, frozen=True, forbid_unknown_fields=True):
    """The attributes of a user; those that are left out are unknown."""

    attributes: Fields = {}
    """Field → value, as the schema declares them: a text, a number, true/false, or a list of them for a set."""


class ItemBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The attributes of an item, and when it may be recommended; a put says all of it."""

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

    id: Name
    """Your own name of the item."""
    attributes: Fields = {}
    """Field → value, as the schema declares the item's; those that are left out are unknown."""
    available_from: Time | None = None
    """From when on it may be recommended; always, if left out."""
    available_until: Time | None = None
    """Until when it may be recommended; for ever, if left out."""
    hidden: bool = False
    """Whether it is not recommended at any time. What was learned of it stays, and events with it are learned."""


class NewUser(Struct, frozen=True, forbid_unknown_fields=True):
    """A user and their attributes."""

    id: Name
    """Your own name of the user."""
    attributes: Fields = {}
    """Field → value, as the schema declares the user's; those that are left out are unknown."""


class NewEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """A user chose an item."""

    user: Name
    """Who chose; one that nobody put is new."""
    item: Name
    """What was chosen; one that nobody put is new."""
    time: Time | None = None
    """When; now, if left out."""
    context: Fields = {}
    """Field → value: the circumstances. What the schema does not declare is admitted, unless it says otherwise."""
    event_id: Name | None = None
    """A name of your own for the event: sent again under the same name, it is learned once."""


Items: TypeAlias = NewItem | Annotated[list[NewItem], Meta(min_length=1, max_length=MOST_RECORDS)]
Users: TypeAlias = NewUser | Annotated[list[NewUser], Meta(min_length=1, max_length=MOST_RECORDS)]
Events: TypeAlias = NewEvent | Annotated[list[NewEvent], Meta(min_length=1, max_length=MOST_RECORDS)]


class RecommendRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks, in which context, and for what."""

    user: Name | None = None
    """May be unknown, or left out: a visitor of whom nothing is known."""
    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10
    """How many items to give at most."""
    context: Fields = {}
    """Field → value: the circumstances in which they are asked for."""
    time: Time | None = None
    """When; now, if left out."""
    attributes: Fields | None = None
    """Of the user, for this call only."""
    exclude_seen: bool | None = None
    """Whether to leave out what the user had; as the schema says, if left out."""
    allow: Filter | None = None
    """Ids of items: recommend none but these. Unknown ones count for nothing; an empty list allows nothing."""
    deny: Filter | None = None
    """Ids of items: do not recommend these, even where `allow` has them. Unknown ones count for nothing."""
    where: Fields | None = None
    """Item field → value or list of values. An item has to meet every field; of a list any value will do, of a set too.
    Numbers can be filtered by where the schema divides them into bins: those in the bin of the value are meant."""
    explain: bool = False
    """Whether to say why, for every item; n is 100 at most then, and all items share 5,000 terms."""
    describe: bool = False
    """Whether to give the attributes of every item."""
    after: Place | None = None
    """A position of the log, as an acknowledgement gives it: the answer knows that line, or is 503 if it takes too long."""


class ExplainRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """One item for one user in one context."""

    item: Name
    """The item whose score is explained."""
    user: Name | None = None
    """For whom; may be unknown, or left out."""
    context: Fields = {}
    """Field → value: the circumstances."""
    time: Time | None = None
    """When; now, if left out."""
    attributes: Fields | None = None
    """Of the user, for this call only."""
    after: Place | None = None
    """A position of the log, as an acknowledgement gives it: the answer knows that line, or is 503 if it takes too long."""


class Term(Struct, frozen=True):
    """One addend of a score: no features for the intercept, one for a weight, two for an interaction.

    Where there are too many, a field's name stands for all its features, and `rest` for all terms that are not listed.
    """

    features: list[str]
    """The features that it is of, such as `item.genre=jazz`."""
    value: float
    """What it adds to the score."""


class Explanation(Struct, frozen=True):
    """A score and the terms that add up to it, the weightiest first."""

    score: float
    """The score, as /recommend gives it."""
    terms: list[Term]
    """They add up to the score."""
    available: bool = True
    """Whether the item may be recommended at that time; one that may not has a score all the same."""


class Recommended(Struct, frozen=True):
    """An item and its score."""

    item: str
    """Its id."""
    score: float
    """The higher, the better; only differences within one answer mean something."""
    why: list[Term] | UnsetType = UNSET
    """The terms that add up to the score, the weightiest first; where `explain` is true."""
    attributes: dict[str, Any] | UnsetType = UNSET
    """As they were put; where `describe` is true."""


class RecommendResponse(Struct, frozen=True):
    """The best items, best first."""

    items: list[Recommended]
    """At most n; fewer where no more are left after filtering."""


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
    """How many records were taken, and where the log stands after the last of them."""

    written: int
    """How many records were taken."""
    position: int
    """Where the log stands after the last of them."""


class Learned(Struct, frozen=True):
    """How many events were learned, how many had been before, and where the log stands after the last of them."""

    learned: int
    """How many events are new: logged, and learned."""
    duplicates: int
    """How many had an event_id that was learned before, and changed nothing."""
    position: int
    """Where the log stands after the last of them."""


class Forgotten(Struct, frozen=True):
    """The line of the log that forgets a person, which is durable, and when the files follow."""

    position: int
    """The line that says so. From now on nobody is served with anything of the person, and no restart brings it back."""
    erasure_begins_within: float
    """Seconds until the work begins that erases the person from log and snapshots; /metrics shows when it is done."""


class SnapshotTaken(Struct, frozen=True):
    """The number of a snapshot, and the position in the log that it stands for."""

    number: int
    """Rises with every snapshot."""
    position: int
    """The last line of the log that it knows."""


class MethodMetrics(Struct, frozen=True):
    """recall@N/T and the mean percentile rank (0 is best, 50 is chance) in the window."""

    recall: float | None
    """The share of the tested events whose item was among the first N; null before any was tested."""
    mpr: float | None
    """Where their items stood on average, in percent of the catalogue: 0 is best, 50 is chance."""


class EvaluationResponse(Struct, frozen=True):
    """How the recommender and its shadows did on the last T events, each ranked before it was learned."""

    top: int
    """N of recall@N."""
    window: int
    """T, the number of events that it looks back on."""
    events: int
    """All events so far."""
    tested: int
    """Those of them that were ranked before they were learned."""
    sampled: float | None
    """The share of the window's events that were ranked."""
    new_users: float | None
    """The share of the window's events that were a user's first."""
    new_items: float | None
    """The share of the window's events that were an item's first."""
    methods: dict[str, MethodMetrics]
    """By name: coldstream, popularity, recent_popularity."""


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
    """What is known of the moment."""


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for, and how much of it to give."""

    search: Text = ""
    """A text that they hold, whatever the case; empty for all."""
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 20
    """How many to give at most."""
    after: Place = 0
    """Where to go on: the `next` of the page before."""


class UserSearch(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for among users, and how much of it to give."""

    search: Text = ""
    """A text that they hold, whatever the case; empty for all."""
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 20
    """How many to give at most."""
    after: Place = 0
    """Where to go on: the `next` of the page before. Whoever goes meanwhile moves the rest: better send a cursor."""
    cursor: Text | None = None
    """Where to go on: the `cursor` of the page before. Nobody is passed over, whoever goes meanwhile."""


class FeatureSearch(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for among features, and how much of it to give."""

    search: Text = ""
    """A text that they hold, whatever the case; empty for all."""
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 20
    """How many to give at most."""
    after: Place = 0
    """Where to go on: the `next` of the page before."""
    field: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    """Only of this field, such as `item.genre`."""


class SchemaQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many fields to give, and how many values of each."""

    limit: Annotated[int, Meta(ge=1, le=MOST_SCHEMA_FIELDS)] = MOST_SCHEMA_FIELDS
    """How many fields to give at most."""
    after: Place = 0
    """Where to go on: the `next` of the page before."""
    values: Annotated[int, Meta(ge=0, le=MOST_SCHEMA_VALUES)] = MOST_SCHEMA_VALUES
    """How many values of each to give at most."""


class FoundUsers(Struct, frozen=True):
    """A page of users, and how many there are, where one page is enough to know; `next` leads to the next page."""

    users: list[str]
    """Their ids."""
    total: int | None
    """How many hold the text; null where one page is not enough to know."""
    next: int | None
    """What to send as `after` for the next page; null at the end."""
    cursor: str | None
    """What to send as `cursor` for the next page, instead of `after`; null at the end."""


class FoundFeatures(Struct, frozen=True):
    """A page of features, and how many there are, where one page is enough to know; `next` leads to the next page."""

    features: list[str]
    """Their names, such as `item.genre=jazz`."""
    total: int | None
    """How many hold the text; null where one page is not enough to know."""
    next: int | None
    """What to send as `after` for the next page; null at the end."""


class ListedItem(Struct, frozen=True):
    """An item, and how often it was chosen."""

    id: str
    """Its id."""
    attributes: dict[str, Any]
    """As they were put."""
    chosen: int
    """How often it was chosen since it came."""
    available_from: float | UnsetType = UNSET
    """From when on it may be recommended, in seconds since 1970; left out where it always may."""
    available_until: float | UnsetType = UNSET
    """Until when it may be recommended, in seconds since 1970; left out where it may for ever."""
    hidden: bool | UnsetType = UNSET
    """True where it is not recommended at any time; left out otherwise."""


class FoundItems(Struct, frozen=True):
    """A page of items, and how many there are, where one page is enough to know; `next` leads to the next page."""

    items: list[ListedItem]
    """With their attributes, in the order in which they came."""
    total: int | None
    """How many hold the text; null where one page is not enough to know."""
    next: int | None
    """What to send as `after` for the next page; null at the end."""


class NearestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A feature by its name."""

    feature: Annotated[str, Meta(min_length=1, max_length=4096)]
    """Its name, such as `item.genre=jazz`."""
    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10
    """How many to give at most."""


class NearFeature(Struct, frozen=True):
    """A feature, and the cosine between its vector and that of another."""

    feature: str
    """Its name."""
    similarity: float
    """From −1 to 1; 1 is the same direction."""


class NearestFeatures(Struct, frozen=True):
    """The features whose vectors point most nearly where that of one feature points."""

    feature: str
    """The one that was asked about."""
    nearest: list[NearFeature]
    """The nearest first."""


class ChangedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many."""

    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10
    """How many to give at most."""


class ChangedFeature(Struct, frozen=True):
    """A feature, and how far its weight and vector have moved."""

    feature: str
    """Its name."""
    change: float
    """The distance between its parameters then and now."""


class ChangedFeatures(Struct, frozen=True):
    """The features that have moved farthest in so many events."""

    since_events: int
    """How many events ago they are compared with."""
    changed: list[ChangedFeature]
    """The farthest first."""
