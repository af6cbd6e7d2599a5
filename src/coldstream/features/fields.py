"""Kinds of schema fields. Each turns one raw value into named features with weights, and knows nothing of columns."""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

from coldstream.bounds.bounds import AGES, Age, is_age
from coldstream.errors import InvalidInput, InvalidSchema, shown
from coldstream.events.event import checked_text
from coldstream.support.arrays import plain

Named: TypeAlias = list[tuple[str, float]]
"""Features of one field: (value, weight)."""

LARGEST = 1e9
"""Largest absolute weight of a feature; its square still fits where scores are summed."""

MOST_COUNTED = 255
"""Maximum of `admit_after`: the sketch that counts occurrences counts no further."""

LONGEST_SHOWN = 1024
"""Maximum length of a title or of an image's address, in characters."""

BOUNDS = ("most", "admit_after", "expire")
"""Options that bound a field, and that may change while the field is in use."""


def weekday(time: float) -> str:
    """Return the day of the week in UTC, '0' for Monday."""
    return str((int(time // 86400) + 3) % 7)


def hour(time: float) -> str:
    """Return the hour of the day in UTC, '0' to '23'."""
    return str(int(time // 3600) % 24)


TIME_PARTS: dict[str, Callable[[float], str]] = {"weekday": weekday, "hour": hour}


@dataclass(frozen=True, slots=True)
class Field:
    """A schema field, with a `name` that is unique on its side. A `linear` field takes no part in pairwise interactions."""

    kind: ClassVar[str]
    sides: ClassVar[tuple[str, ...]]

    name: str
    linear: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidSchema(f"a field's name must be a string that is not empty, got {shown(self.name)}")
        checked_text("a field's name", self.name)
        self._require("linear", self.linear, isinstance(self.linear, bool), "true or false")

    def document(self) -> dict[str, Any]:
        """Return the field as TOML and JSON write it, without its name."""
        options = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "name"}
        default = {f.name: f.default for f in fields(self)}
        return {"kind": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in options.items()
            if value != default[name]
        }

    def _require(self, option: str, value: object, holds: bool, rule: str) -> None:
        if not holds:
            raise InvalidSchema(f"field {self.name!r} ({self.kind}): {option} must be {rule}, got {shown(value)}")


@dataclass(frozen=True, slots=True)
class ManyValued(Field):
    """A field with any number of values, and its bounds.

    Beyond `most` values, the least useful is evicted. A value is admitted at its occurrence number `admit_after`. A value
    expires when it was not used for `expire`: a number of events, or a time such as "30d".
    """

    most: int | None = field(default=None, kw_only=True)
    admit_after: int = field(default=1, kw_only=True)
    expire: Age = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        Field.__post_init__(self)
        for option in ("most", "admit_after", "expire"):
            object.__setattr__(self, option, plain(getattr(self, option)))
        self._require("most", self.most, self.most is None or _is_count(self.most, 2**31), "a whole number from 1 on")
        few = _is_count(self.admit_after, MOST_COUNTED + 1)
        self._require("admit_after", self.admit_after, few, f"a whole number from 1 to {MOST_COUNTED}")
        self._require("expire", self.expire, is_age(self.expire), AGES)


@dataclass(frozen=True, slots=True)
class Id(ManyValued):
    """The id itself: one feature per user or per item.

    Ids of items are evicted with their items, and have no bounds of their own.
    """

    kind = "id"
    sides = ("user", "item")
    name: str = "id"


@dataclass(frozen=True, slots=True)
class Category(ManyValued):
    """One of many values: a string, a whole number or a truth value."""

    kind = "category"
    sides = ("user", "item", "context")

    def features(self, owner: str, raw: Any) -> Named:
        return [(_label(owner, self.name, raw, "a string, a whole number or true/false"), 1.0)]


@dataclass(frozen=True, slots=True)
class Categories(ManyValued):
    """A set of categories. With `normalize`, each of n values weighs 1/√n, so that the vector's length is always 1."""

    kind = "set"
    sides = ("user", "item", "context")
    normalize: bool = False

    def __post_init__(self) -> None:
        ManyValued.__post_init__(self)
        self._require("normalize", self.normalize, isinstance(self.normalize, bool), "true or false")

    def features(self, owner: str, raw: Any) -> Named:
        if not isinstance(raw, list):
            raise InvalidInput(f"{owner}: {self.name} must be a list of strings, got {shown(raw)}; write [{shown(raw)}]")
        labels = dict.fromkeys(_label(owner, self.name, value, "a list of strings") for value in raw)
        weight = 1.0 / math.sqrt(len(labels)) if self.normalize and labels else 1.0
        return [(label, weight) for label in labels]


@dataclass(frozen=True, slots=True)
class Number(Field):
    """A quantity, scaled as declared: `low`/`high` map to 0 and 1 and clip, `center`/`scale` shift and divide.

    With `bins`, a list of rising edges, the quantity becomes a category: the interval that it falls into.
    """

    kind = "number"
    sides = ("user", "item", "context")
    low: float | None = None
    high: float | None = None
    center: float = 0.0
    scale: float = 1.0
    bins: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        Field.__post_init__(self)
        for option in ("low", "high", "center", "scale"):
            object.__setattr__(self, option, plain(getattr(self, option)))
        for option in ("center", "scale"):
            self._require(option, getattr(self, option), _is_number(getattr(self, option)), "a finite number")
        self._require("scale", self.scale, self.scale != 0, "other than 0")
        if self.low is not None or self.high is not None:
            bounds = (self.low, self.high)
            self._require("low and high", bounds, _rising(bounds), "two finite numbers, low < high")
        object.__setattr__(self, "bins", _as_tuple(plain(self.bins)))
        self._require("bins", self.bins, isinstance(self.bins, tuple) and _rising(self.bins), "rising finite numbers")
        ways = (self.low is not None) + ((self.center, self.scale) != (0.0, 1.0)) + bool(self.bins)
        self._require("scaling", self.document(), ways <= 1, "one of low/high, center/scale and bins")

    def features(self, owner: str, raw: Any) -> Named:
        if not _is_number(raw):
            raise InvalidInput(f"{owner}: {self.name} must be a finite number, got {shown(raw)}; leave it out if unknown")
        if self.bins:
            return [(str(bisect_right(self.bins, raw)), 1.0)]
        if self.low is not None and self.high is not None:
            value = (min(max(raw, self.low), self.high) - self.low) / (self.high - self.low)
        else:
            value = (raw - self.center) / self.scale
        if abs(value) > LARGEST:
            raise InvalidInput(f"{owner}: {self.name} is too large after scaling, got {shown(raw)}; declare low and high")
        return [("", value)] if value else []


@dataclass(frozen=True, slots=True)
class Shown(Field):
    """A text that is kept with an item to be displayed. It is no feature: nothing is learned from it."""

    sides = ("item",)

    def features(self, owner: str, raw: Any) -> Named:
        if not isinstance(raw, str) or len(raw) > LONGEST_SHOWN:
            must = f"a text of at most {LONGEST_SHOWN} characters"
            raise InvalidInput(f"{owner}: {self.name} must be {must}, got {shown(raw)}; leave it out if unknown")
        checked_text(f"{owner}: {self.name}", raw)
        return []


@dataclass(frozen=True, slots=True)
class Title(Shown):
    """The title of an item, to be displayed."""

    kind = "title"
    name: str = "title"


@dataclass(frozen=True, slots=True)
class Image(Shown):
    """The address of an item's picture, to be displayed."""

    kind = "image"
    name: str = "image"


Attribute: TypeAlias = Category | Categories | Number | Title | Image
"""A field whose raw value the caller gives. `features(owner, raw)` returns its features; `owner` is for error messages."""


@dataclass(frozen=True, slots=True)
class TimePart(Field):
    """A part of the event's time, in UTC: `weekday` or `hour`."""

    kind = "time"
    sides = ("context",)
    part: str = "weekday"

    def __post_init__(self) -> None:
        Field.__post_init__(self)
        known = isinstance(self.part, str) and self.part in TIME_PARTS
        self._require("part", self.part, known, "one of " + ", ".join(TIME_PARTS))


@dataclass(frozen=True, slots=True)
class LastTimePart(TimePart):
    """A part of the time of the user's previous event, in UTC: `weekday` or `hour`."""

    kind = "last_time"


@dataclass(frozen=True, slots=True)
class LastItem(ManyValued):
    """The item of the user's previous event."""

    kind = "last_item"
    sides = ("context",)
    name: str = "last_item"


@dataclass(frozen=True, slots=True)
class LastItems(ManyValued):
    """The items of the user's previous `length` events; n of them weigh 1/√n each."""

    kind = "last_items"
    sides = ("context",)
    name: str = "last_items"
    length: int = 10

    def __post_init__(self) -> None:
        ManyValued.__post_init__(self)
        object.__setattr__(self, "length", plain(self.length))
        self._require("length", self.length, _is_length(self.length), "a whole number from 1 to 1000")


@dataclass(frozen=True, slots=True)
class LastAttribute(ManyValued):
    """An attribute of the item of the user's previous event, as it was then: "last rated genre".

    `of` names the attribute.
    """

    kind = "last_attribute"
    sides = ("context",)
    of: str = ""

    def __post_init__(self) -> None:
        ManyValued.__post_init__(self)
        self._require("of", self.of, isinstance(self.of, str) and bool(self.of), "the name of an item attribute")


@dataclass(frozen=True, slots=True)
class Trend(Field):
    """Recent popularity of an item: the logarithm of a count of choices that halves every `half_life` events.

    Linear by default: with all pairs, an interacting trend costs one more product for every item and request.
    """

    kind = "trend"
    sides = ("item",)
    half_life: float = 1000.0
    linear: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        Field.__post_init__(self)
        object.__setattr__(self, "half_life", plain(self.half_life))
        sensible = _is_number(self.half_life) and 1e-3 <= self.half_life <= 1e12
        self._require("half_life", self.half_life, sensible, "a number of events from 0.001 to 1e12")


@dataclass(frozen=True, slots=True)
class CrossFeature(Field):
    """A feature of a user and an item together, read from past choices. Always linear."""

    sides = ("item",)
    linear: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        Field.__post_init__(self)
        self._require("linear", self.linear, self.linear, "true, because it belongs to a user and an item at once")


@dataclass(frozen=True, slots=True)
class Follows(CrossFeature):
    """How often any user chose the item right after this user's last item: log(1 + count)."""

    kind = "follows"
    name: str = "follows"


@dataclass(frozen=True, slots=True)
class Together(CrossFeature):
    """How often the item is chosen together with the user's last `length` items: √ of a sum of cosines."""

    kind = "together"
    name: str = "together"
    length: int = 10

    def __post_init__(self) -> None:
        CrossFeature.__post_init__(self)
        object.__setattr__(self, "length", plain(self.length))
        self._require("length", self.length, _is_length(self.length), "a whole number from 1 to 1000")


@dataclass(frozen=True, slots=True)
class Again(CrossFeature):
    """How often the user chose the item before: log(1 + count). For streams with repeated choices."""

    kind = "again"
    name: str = "again"


_ALL = (
    *(Id, Category, Categories, Number, TimePart, LastTimePart, LastItem, LastItems, LastAttribute),
    *(Trend, Follows, Together, Again, Title, Image),
)
KINDS: dict[str, type[Field]] = {kind.kind: kind for kind in _ALL}
HISTORY_KINDS = (LastTimePart, LastItem, LastItems, LastAttribute)


def _label(owner: str, name: str, raw: object, wanted: str) -> str:
    if isinstance(raw, str):
        return checked_text(f"{owner}: {name}", raw)
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int) and abs(raw) < 2**63:
        return str(raw)
    raise InvalidInput(f"{owner}: {name} must be {wanted}, got {shown(raw)}")


def _rising(values: tuple[Any, ...]) -> bool:
    return all(map(_is_number, values)) and all(a < b for a, b in pairwise(values))


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_count(value: object, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < end


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1000


def _is_number(value: object) -> bool:
    # Comparing, unlike math.isfinite, also works for integers that are too large for a float.
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300
