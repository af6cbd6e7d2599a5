"""What is asked for in a recommendation or an explanation, and what comes back."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from coldstream.service.messages import MOST_ITEMS, Fields, Filter, Name, Place, Time


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
