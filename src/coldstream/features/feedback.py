"""Kinds of feedback: the weight of an event, and which statistics it counts in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from coldstream.errors import InvalidInput, InvalidSchema, shown
from coldstream.support.arrays import plain

HEAVIEST = 100.0
"""Largest absolute weight of a kind."""
LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Feedback:
    """A kind of event under a `name`, such as a view, a purchase or a dislike. Validated when built.

    The defaults suit a shop: a purchase means that the user had the item, a view does not, and neither a view nor a dislike
    counts for popularity.

    >>> Feedback("view", 0.2)
    Feedback(name='view', weight=0.2, had=False, trends=False, history=True)
    >>> Feedback("dislike", -1)
    Feedback(name='dislike', weight=-1.0, had=True, trends=False, history=False)
    """

    name: str
    weight: float = 1.0
    """Factor of the gradient. Below 0 the event speaks against its item, at 0 nothing is learned."""
    had: bool | None = None
    """Whether the user had the item then. Default: true where the weight is 1 or more, or below 0."""
    trends: bool | None = None
    """Whether the event counts in trends, neighbours and choices. Default: true where the weight is 0.5 or more."""
    history: bool | None = None
    """Whether the event counts in the user's history. Default: true where the weight is above 0."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= LONGEST_NAME:
            message = f"feedback: a kind's name must be a text of 1 to {LONGEST_NAME} characters, got {shown(self.name)}"
            raise InvalidSchema(f"{message}; name it as in view, cart or purchase")
        weight = plain(self.weight)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not abs(weight) <= HEAVIEST:
            message = f"feedback {self.name!r}: weight must be a number from -{HEAVIEST:g} to {HEAVIEST:g}"
            raise InvalidSchema(f"{message}, got {shown(weight)}; 1 is that of a plain event")
        object.__setattr__(self, "weight", float(weight) + 0.0)
        defaults = {"had": weight >= 1 or weight < 0, "trends": weight >= 0.5, "history": weight > 0}
        for name, default in defaults.items():
            given = getattr(self, name)
            if not isinstance(given, bool | None):
                message = f"feedback {self.name!r}: {name} must be true or false, got {shown(given)}"
                raise InvalidSchema(f"{message}; leave it out for {str(default).lower()}")
            object.__setattr__(self, name, default if given is None else given)

    @property
    def is_target(self) -> bool:
        """Whether events of this kind are evaluation targets by default: the user wanted the item and had it."""
        return self.weight > 0 and bool(self.had)

    def document(self) -> float | dict[str, Any]:
        """Return the kind as TOML and JSON write it: its weight, or a table if an option differs from its default."""
        default = Feedback(self.name, self.weight)
        own = {name: getattr(self, name) for name in ("had", "trends", "history")}
        options = {name: value for name, value in own.items() if value != getattr(default, name)}
        return {"weight": self.weight, **options} if options else self.weight


CHOICE = Feedback("choice")
"""Feedback of an event that has no kind."""


def checked_feedback(declared: Any) -> tuple[Feedback, ...]:
    """Return the declared kinds as a tuple. Raise `InvalidSchema` unless they are `Feedback` with distinct names."""
    if isinstance(declared, str | Mapping) or not isinstance(declared, Iterable):
        raise InvalidSchema(f"schema: feedback must be a list of Feedback, got {shown(declared)}")
    kinds: dict[str, Feedback] = {}
    for kind in declared:
        if not isinstance(kind, Feedback):
            raise InvalidSchema(f"schema: feedback must be a list such as [Feedback('view', 0.2)], got {shown(kind)}")
        if kind.name in kinds:
            raise InvalidSchema(f"schema: duplicate feedback {kind.name!r}; keep one of the two")
        kinds[kind.name] = kind
    return tuple(kinds.values())


def feedback_of(table: Any) -> list[Feedback]:
    """Return the kinds that a table declares: name → weight, or name → table of options.

    Raise `InvalidSchema` if invalid.
    """
    if not isinstance(table, Mapping):
        raise InvalidSchema(f"schema: feedback must be a table of kinds, got {shown(table)}; write view = 0.2")
    known = [option.name for option in fields(Feedback) if option.name != "name"]
    kinds = []
    for name, given in table.items():
        options = given if isinstance(given, Mapping) else {"weight": given}
        for option, value in options.items():
            if option not in known:
                message = f"feedback {name!r}: unknown option {option} = {shown(value)}"
                raise InvalidSchema(f"{message}; known are {', '.join(known)}")
        kinds.append(Feedback(name, **options))
    return kinds


def effect_of(kinds: Iterable[Feedback], kind: str | None) -> Feedback:
    """Return the feedback of an event's kind, `CHOICE` for None. Raise `InvalidInput` if the kind is not declared."""
    if kind is None:
        return CHOICE
    for known in kinds:
        if known.name == kind:
            return known
    names = ", ".join(known.name for known in kinds)
    remedy = f"use one of {names}" if names else "declare it in the schema's table [feedback]"
    error = InvalidInput(f"kind must be one that the schema declares ({names or 'none'}), got {shown(kind)}; {remedy}")
    error.field = "kind"
    raise error
