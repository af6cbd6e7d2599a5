"""Messages of recommendations, explanations, and lists that are not for one user."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from coldstream.service.messages.core import MOST_ITEMS, Fields, Filter, Identifier, Name, Place, Text, Time, Where, as_text

MOST_RULES = 64
"""Most boosts, capped fields or pins, the same as in `lists/rules.py`, which clients do not import."""


class BoostBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A boost: some items become likelier, or less likely."""

    where: Where
    """Which items, as in a request."""
    factor: Annotated[float, Meta(ge=1e-9, le=1e9)] = 2.0
    """How many times as likely as without the boost these items are: 2 brings them forward, 0.5 buries them."""


class PinBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An item at a fixed position."""

    item: Identifier
    """Its id. One that is unknown, denied or not available is passed over."""
    position: Annotated[int, Meta(ge=1, le=MOST_ITEMS)]
    """Position of the item in the list; 1 is the first."""

    def __post_init__(self) -> None:
        as_text(self, "item")


class RulesBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for a list: boosts, caps per value, pins and diversity."""

    boosts: Annotated[list[BoostBody], Meta(max_length=MOST_RULES)] = []
    """Boosts of items; an item that several match gets the product of their factors."""
    most_per: Annotated[dict[Name, Annotated[int, Meta(ge=1, le=MOST_ITEMS)]], Meta(max_length=MOST_RULES)] = {}
    """Item field → how many items of one value the list may have."""
    pins: Annotated[list[PinBody], Meta(max_length=MOST_RULES)] = []
    """Items at fixed positions, whatever their scores are."""
    diversity: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """From 0, by score alone, to 1, where each item is as different as possible from those above it."""


class RecommendRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for recommendations: the user, the context, and which items to choose from."""

    user: Identifier | None = None
    """Id of the user. It may be unknown, or left out for a visitor of whom nothing is known."""
    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10
    """How many items to give at most."""
    context: Fields = {}
    """Field → value: the circumstances in which they are asked for."""
    time: Time | None = None
    """When; now, if left out."""
    attributes: Fields | None = None
    """Attributes of the user, for this call only."""
    exclude_seen: bool | None = None
    """Whether to leave out items that the user has had; as the schema says, if left out."""
    allow: Filter | None = None
    """Ids of items: recommend none but these. Unknown ones count for nothing; an empty list allows nothing."""
    deny: Filter | None = None
    """Ids of items: do not recommend these, even where `allow` has them. Unknown ones count for nothing."""
    where: Where | None = None
    """Item field → value, list of values, or condition. An item has to meet every field; of a list any value will do, of a
    set too. A condition has some of `any`, `all` and `not`, with a value or a list, and of a number `min` and `max`, both
    included."""
    explain: bool = False
    """Whether to give the terms of every item's score; n is 100 at most then, and all items share 5,000 terms."""
    describe: bool = False
    """Whether to give the attributes of every item."""
    history: Filter | None = None
    """Ids of items that count as chosen, the latest at the end, for a visitor without `user`. Unknown ones count for
    nothing."""
    rules: RulesBody | None = None
    """Rules for the list; n is 100 at most then."""
    remember: bool = False
    """Whether the answer will be shown: it then has a recommendation_id, which leads to the next page, and which events can
    name."""
    next_of: Name | None = None
    """The recommendation_id of an answer: give what comes after it, without what it showed and all pages before it."""
    after: Place | None = None
    """A position of the log, as an acknowledgement gives it: the answer knows that line, or is 503 if it takes too long."""

    def __post_init__(self) -> None:
        as_text(self, "user", "allow", "deny", "history")


class ExplainRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """One item for one user in one context."""

    item: Identifier
    """The item whose score is explained."""
    user: Identifier | None = None
    """Id of the user; it may be unknown, or left out."""
    context: Fields = {}
    """Field → value: the circumstances."""
    time: Time | None = None
    """When; now, if left out."""
    attributes: Fields | None = None
    """Attributes of the user, for this call only."""
    after: Place | None = None
    """A position of the log, as an acknowledgement gives it: the answer knows that line, or is 503 if it takes too long."""

    def __post_init__(self) -> None:
        as_text(self, "item", "user")


class Term(Struct, frozen=True):
    """One addend of a score: no features for the intercept, one for a weight, two for an interaction.

    Where there are too many, a field's name stands for all its features, and `rest` for all terms that are not listed.
    """

    features: list[str]
    """The features whose parameters it is made of, such as `item.genre=jazz`."""
    value: float
    """What it adds to the score."""


class Explanation(Struct, frozen=True):
    """A score and the terms that add up to it, the weightiest first."""

    score: float
    """The score, as /recommend gives it."""
    terms: list[Term]
    """Terms that add up to the score, the weightiest first."""
    available: bool
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
    recommendation_id: str | UnsetType = UNSET
    """Where `remember` is true, or a next page was asked for: the name of this answer."""
    first_position: int | UnsetType = UNSET
    """Where a next page was asked for: the position of its first item, counted from 1 on the first page."""


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a list of items: how many, and which."""

    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10
    """How many items to give at most."""
    where: Text | None = None
    """What items must meet, as JSON: `{"price": {"max": 50}}`, as in /recommend."""
    time: Time | None = None
    """When; now, if left out. Items that are not available then are left out."""
    describe: bool = False
    """Whether to give the attributes of every item."""


class TrendingQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for trending items: how many, which, and the half-life of a choice."""

    n: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 10
    """How many items to give at most."""
    half_life: Annotated[float, Meta(gt=0, le=1e12)] | None = None
    """Half-life of a choice, in events: the nearest of those that are counted is used, if left out the shortest."""
    where: Text | None = None
    """What items must meet, as JSON: `{"price": {"max": 50}}`, as in /recommend."""
    time: Time | None = None
    """When; now, if left out. Items that are not available then are left out."""
    describe: bool = False
    """Whether to give the attributes of every item."""


class ScoredItem(Struct, frozen=True):
    """An item of a list."""

    item: str
    """Its id."""
    score: float
    """In /similar a cosine, of 1 at most; in /trending how often it was chosen lately; in /new which arrival it was."""
    attributes: dict[str, Any] | UnsetType = UNSET
    """As they were put; where `describe` is true."""


class ItemList(Struct, frozen=True):
    """Items, best first."""

    items: list[ScoredItem]
    """At most n."""
