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


class Attributes(Struct, frozen=True, forbid_unknown_fields=True):
    """The attributes of a user or an item; those that are left out are unknown."""

    attributes: Fields = {}


class NewItem(Struct, frozen=True, forbid_unknown_fields=True):
    """An item and its attributes."""

    id: Name
    attributes: Fields = {}


class NewUser(Struct, frozen=True, forbid_unknown_fields=True):
    """A user and their attributes."""

    id: Name
    attributes: Fields = {}


class NewEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """A user chose an item."""

    user: Name
    item: Name
    time: Time | None = None
    """When; now, if left out."""
    context: Fields = {}
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
    context: Fields = {}
    time: Time | None = None
    """When; now, if left out."""
    attributes: Fields | None = None
    """Of the user, for this call only."""
    exclude_seen: bool | None = None
    """Whether to leave out what the user had; as the schema says, if left out."""
    allow: Filter | None = None
    """Recommend only these."""
    deny: Filter | None = None
    """Do not recommend these."""
    where: Fields | None = None
    """Recommend only items with these attributes; of a list, any value will do."""
    explain: bool = False
    """Whether to say why, for every item; n is 100 at most then, and all items share 5,000 terms."""


class ExplainRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """One item for one user in one context."""

    item: Name
    user: Name | None = None
    context: Fields = {}
    time: Time | None = None
    attributes: Fields | None = None


class Term(Struct, frozen=True):
    """One addend of a score: no features for the intercept, one for a weight, two for an interaction.

    Where there are too many, a field's name stands for all its features, and `rest` for all terms that are not listed.
    """

    features: list[str]
    value: float


class Explanation(Struct, frozen=True):
    """A score and the terms that add up to it, the weightiest first."""

    score: float
    terms: list[Term]


class Recommended(Struct, frozen=True):
    """An item and its score."""

    item: str
    score: float
    why: list[Term] | UnsetType = UNSET


class RecommendResponse(Struct, frozen=True):
    """The best items, best first."""

    items: list[Recommended]


class Described(Struct, frozen=True):
    """An item or a user, as it was put."""

    id: str
    attributes: dict[str, Any]


class Written(Struct, frozen=True):
    """How many records were taken, and where the log stands after the last of them."""

    written: int
    position: int


class Learned(Struct, frozen=True):
    """How many events were learned, how many had been before, and where the log stands after the last of them."""

    learned: int
    duplicates: int
    position: int


class Forgotten(Struct, frozen=True):
    """Whether the person's lines are erased from the log by now; if not, they will be as soon as the store can."""

    erased: bool


class SnapshotTaken(Struct, frozen=True):
    """The number of a snapshot, and the position in the log that it stands for."""

    number: int
    position: int


class MethodMetrics(Struct, frozen=True):
    """recall@N/T and the mean percentile rank (0 is best, 50 is chance) in the window."""

    recall: float | None
    mpr: float | None


class EvaluationResponse(Struct, frozen=True):
    """How the recommender and its shadows did on the last T events, each ranked before it was learned."""

    top: int
    window: int
    events: int
    tested: int
    sampled: float | None
    new_users: float | None
    new_items: float | None
    methods: dict[str, MethodMetrics]


NewField: TypeAlias = Annotated[dict[Name, Value], Meta(max_length=16)]
"""The kind of a field and its options, as in a schema: `{"kind": "number", "low": 0, "high": 5}`."""
NewSide: TypeAlias = Annotated[dict[Name, NewField], Meta(max_length=MOST_FIELDS)]


class NewFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields to be declared, by side: field → kind and options."""

    user: NewSide = {}
    item: NewSide = {}
    context: NewSide = {}


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for, and how much of it to give."""

    search: Text = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 20
    after: Place = 0
    """Where to go on: the `next` of the page before."""


class FeatureSearch(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for among features, and how much of it to give."""

    search: Text = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 20
    after: Place = 0
    """Where to go on: the `next` of the page before."""
    field: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    """Only of this field, such as `item.genre`."""


class SchemaQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many fields to give, and how many values of each."""

    limit: Annotated[int, Meta(ge=1, le=MOST_SCHEMA_FIELDS)] = MOST_SCHEMA_FIELDS
    after: Place = 0
    """Where to go on: the `next` of the page before."""
    values: Annotated[int, Meta(ge=0, le=MOST_SCHEMA_VALUES)] = MOST_SCHEMA_VALUES


class FoundUsers(Struct, frozen=True):
    """A page of users, and how many there are, where one page is enough to know; `next` leads to the next page."""

    users: list[str]
    total: int | None
    next: int | None


class FoundFeatures(Struct, frozen=True):
    """A page of features, and how many there are, where one page is enough to know; `next` leads to the next page."""

    features: list[str]
    total: int | None
    next: int | None


class ListedItem(Struct, frozen=True):
    """An item, and how often it was chosen."""

    id: str
    attributes: dict[str, Any]
    chosen: int


class FoundItems(Struct, frozen=True):
    """A page of items, and how many there are, where one page is enough to know; `next` leads to the next page."""

    items: list[ListedItem]
    total: int | None
    next: int | None


class NearestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A feature by its name."""

    feature: Annotated[str, Meta(min_length=1, max_length=4096)]
    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10


class NearFeature(Struct, frozen=True):
    """A feature, and the cosine between its vector and that of another."""

    feature: str
    similarity: float


class NearestFeatures(Struct, frozen=True):
    """The features whose vectors point most nearly where that of one feature points."""

    feature: str
    nearest: list[NearFeature]


class ChangedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many."""

    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10


class ChangedFeature(Struct, frozen=True):
    """A feature, and how far its weight and vector have moved."""

    feature: str
    change: float


class ChangedFeatures(Struct, frozen=True):
    """The features that have moved farthest in so many events."""

    since_events: int
    changed: list[ChangedFeature]


class LiveQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The last sample that is known."""

    since: Annotated[int, Meta(ge=-1, le=2**53)] = -1


class Sample(Struct, frozen=True):
    """How the service stood at one moment."""

    seq: int
    time: float
    events: int
    events_per_second: float
    recommendations_per_second: float
    p50_ms: float | None
    p99_ms: float | None
    features: int
    new_features: int
    sampled: float | None
    new_users: float | None
    new_items: float | None
    methods: dict[str, MethodMetrics]
    penalties: dict[str, float]


class Annotation(Struct, frozen=True):
    """Something that happened, to be marked on the dashboard's curves: `drift` or `items`."""

    seq: int
    events: int
    kind: str
    text: str


class NewestSnapshot(Struct, frozen=True):
    """The newest snapshot."""

    number: int
    position: int
    seconds_ago: float


class ServiceFacts(Struct, frozen=True):
    """What the service is, and how large."""

    version: str
    ready: bool
    store: str
    position: int
    snapshot: NewestSnapshot | None
    preset: str
    items: int
    users: int
    features: int
    factors: int
    parameters_bytes: int


class LiveResponse(Struct, frozen=True):
    """How the service fared since a sample, for the page."""

    service: ServiceFacts
    top: int
    window: int
    samples: list[Sample]
    marks: list[Annotation]


class Health(Struct, frozen=True):
    """Whether the process is alive, and whether its store takes what is written."""

    status: str
    version: str
    store: str


class Ready(Struct, frozen=True):
    """The service answers, and knows the log up to this position."""

    position: int
