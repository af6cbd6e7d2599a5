"""Messages of searches among items, users, features and the schema."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from coldstream.service.messages.core import MOST_ITEMS, MOST_SCHEMA_FIELDS, MOST_SCHEMA_VALUES, Place, Text


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """A search among items, and the page to give."""

    search: Text = ""
    """Text that the id or the attributes contain, in upper or lower case; empty for all."""
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 20
    """How many to give at most."""
    after: Place = 0
    """Where to go on: the `next` of the page before."""


class UserSearch(Struct, frozen=True, forbid_unknown_fields=True):
    """A search among users, and the page to give."""

    search: Text = ""
    """Text that the id contains, in upper or lower case; empty for all."""
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 20
    """How many to give at most."""
    after: Place = 0
    """Where to go on: the `next` of the page before. If users are deleted meanwhile, others are skipped: use `cursor`."""
    cursor: Text | None = None
    """Where to go on: the `cursor` of the page before. It skips no user, even if others are deleted meanwhile."""


class FeatureSearch(Struct, frozen=True, forbid_unknown_fields=True):
    """A search among features, and the page to give."""

    search: Text = ""
    """Text that the name contains, in upper or lower case; empty for all."""
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


class SchemaInUse(Struct, frozen=True):
    """The schema in use, in pages of fields; `next` leads to the next page."""

    user: dict[str, dict[str, Any]]
    """Attributes of users: field → kind and options. Categories and sets also have `values`, some of those seen, and
    `known`, how many were seen."""
    item: dict[str, dict[str, Any]]
    """Attributes of items, in the same form."""
    context: dict[str, dict[str, Any]]
    """Fields of the context, in the same form."""
    exclude_seen: bool
    """Whether items that a user has had are left out unless a request says otherwise."""
    open_context: bool
    """Whether the context takes fields that are not declared."""
    feedback: dict[str, Any] | UnsetType = UNSET
    """Kinds of event and their effects; left out where every event is a plain choice."""
    next: int | None = None
    """What to send as `after` for the next page; null at the end."""


class FoundUsers(Struct, frozen=True):
    """A page of users; `next` leads to the next page."""

    users: list[str]
    """Their ids."""
    total: int | None
    """How many match in all; null on later pages of a search for a text, and where counting would take too long."""
    next: int | None
    """What to send as `after` for the next page; null at the end."""
    cursor: str | None
    """What to send as `cursor` for the next page, instead of `after`; null at the end."""


class FoundFeatures(Struct, frozen=True):
    """A page of features; `next` leads to the next page."""

    features: list[str]
    """Their names, such as `item.genre=jazz`."""
    total: int | None
    """How many match in all; null on later pages of a search for a text, and where counting would take too long."""
    next: int | None
    """What to send as `after` for the next page; null at the end."""


class ListedItem(Struct, frozen=True):
    """An item, and how often it was chosen."""

    id: str
    """Its id."""
    attributes: dict[str, Any]
    """As they were put."""
    chosen: int
    """How often the item was chosen since it was added."""
    available_from: float | UnsetType = UNSET
    """From when on it may be recommended, in seconds since 1970; left out where it always may."""
    available_until: float | UnsetType = UNSET
    """Until when it may be recommended, in seconds since 1970; left out where it may for ever."""
    hidden: bool | UnsetType = UNSET
    """True where it is not recommended at any time; left out otherwise."""


class FoundItems(Struct, frozen=True):
    """A page of items; `next` leads to the next page."""

    items: list[ListedItem]
    """With their attributes, in the order in which they came."""
    total: int | None
    """How many match in all; null on later pages of a search for a text, and where counting would take too long."""
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
    """How many features to give."""

    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10
    """How many to give at most."""


class ChangedFeature(Struct, frozen=True):
    """A feature, and how far its weight and vector have moved."""

    feature: str
    """Its name."""
    change: float
    """The distance between its parameters then and now."""


class ChangedFeatures(Struct, frozen=True):
    """The features whose parameters have moved farthest within a number of events."""

    since_events: int
    """Number of events since the copy of the parameters that they are compared with."""
    changed: list[ChangedFeature]
    """The farthest first."""
