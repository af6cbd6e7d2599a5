"""Rules on a list: boosts, caps per value, pinned items, and diversity."""

import math
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coldstream.engine.shared_model import SharedModel
from coldstream.errors import InvalidInput, shown
from coldstream.events.event import checked_id
from coldstream.features.fields import Number
from coldstream.scoring.filters import filterable, refused_slots
from coldstream.scoring.requests import EncodedRequest
from coldstream.support.arrays import Doubles, Flags, plain

MOST_RULES = 64
"""Most boosts, pins or capped fields of one request."""
MAX_LOOK_UPS = 3
"""Passes in which the conditions of boosts are looked up in steps while items change."""
POOL = 10
"""Candidates per wanted item that diversity chooses from, with at least 100 in all."""


@dataclass(frozen=True, slots=True)
class Boost:
    """Items that a list moves up or down. Validated when built."""

    where: Mapping[str, Any] = field(hash=False)
    """The items concerned: conditions by field, as in `recommend`."""
    factor: float = 2.0
    """Factor on the odds of each item: 2 moves it up, .5 moves it down."""

    def __post_init__(self) -> None:
        if not isinstance(self.where, Mapping):
            raise InvalidInput(f"boost: where must be a mapping from item field to value, got {shown(self.where)}")
        factor = plain(self.factor)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1e-9 <= factor <= 1e9:
            message = f"boost: factor must be a number from 1e-9 to 1e9, got {shown(factor)}"
            raise InvalidInput(f"{message}; 2 brings items forward, 0.5 buries them")
        object.__setattr__(self, "factor", float(factor))


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that a list must follow. Validated when built."""

    boosts: Sequence[Boost] = ()
    """Boosts of items; an item that several match gets the product of their factors."""
    most_per: Mapping[str, int] = field(default_factory=dict, hash=False)
    """By item field, the most items of one value that a list may have, pinned ones included."""
    pins: Mapping[int, str] = field(default_factory=dict, hash=False)
    """By position, 1 for the first, the item pinned there, whatever its score is, and whether or not the user had it."""
    diversity: float = 0.0
    """Weight of diversity: 0 ranks by score alone; 1 picks, among the best, items most unlike those above, by vectors."""

    def __post_init__(self) -> None:
        given: Any = self.boosts
        boosts = list(given) if isinstance(given, Iterable) else [given]
        if not all(isinstance(one, Boost) for one in boosts):
            raise _refused("boosts", f"boosts must be a list of Boost, got {shown(given)}; write [Boost({{...}}, 2)]")
        object.__setattr__(self, "boosts", tuple(boosts))
        for name, given in (("most_per", self.most_per), ("pins", self.pins)):
            if not isinstance(given, Mapping):
                raise _refused(name, f"{name} must be a mapping, got {shown(given)}")
        for name, count in (("boosts", len(boosts)), ("most_per", len(self.most_per)), ("pins", len(self.pins))):
            if count > MOST_RULES:
                raise _refused(name, f"{name} must be at most {MOST_RULES}, got {count}; leave some out")
        for own, most in self.most_per.items():
            if isinstance(most, bool) or not isinstance(most, int) or most < 1:
                raise _refused("most_per", f"most_per: {own} must be a whole number of 1 or more, got {shown(most)}")
        for place, item in self.pins.items():
            if isinstance(place, bool) or not isinstance(place, int) or place < 1:
                raise _refused("pins", f"pins: a position must be a whole number of 1 or more, got {shown(place)}")
            checked_id("item", item)
        if len(set(self.pins.values())) < len(self.pins):
            raise _refused("pins", f"pins must name an item once, got {shown(dict(self.pins))}")
        diversity = plain(self.diversity)
        if isinstance(diversity, bool) or not isinstance(diversity, int | float) or not 0 <= diversity <= 1:
            raise _refused("diversity", f"diversity must be a number from 0 to 1, got {shown(diversity)}")
        object.__setattr__(self, "diversity", float(diversity))


def ruled(shared: SharedModel, request: EncodedRequest, rules: Rules, events: int) -> list[tuple[int, float]]:
    """Return slots and scores of the best items of a request under rules, in the order of the list.

    Caps are exact: the list equals a walk down the whole ranking that skips every item with a value at its cap.
    """
    request = request._replace(added=_added(shared, rules.boosts))
    caps, mask = _Caps(shared, rules.most_per), _mask(shared, request.excluded)
    pinned = _pinned(shared, rules.pins, mask, request.n)
    for slot in pinned.values():
        caps.take(slot)
        mask[slot] = 1
    wanted, chosen = request.n - len(pinned), list[tuple[int, float]]()
    while len(chosen) < wanted:
        asked = _asked(rules, wanted - len(chosen))
        mask |= caps.full()
        found = shared.scorer.top([request._replace(n=asked, excluded=mask.copy())], events)[0]
        taken = _picked(shared, found, wanted - len(chosen), caps, rules.diversity)
        chosen += taken
        mask[[slot for slot, _ in taken]] = 1
        if len(found) < asked or not taken:
            break
    scores = {slot: shared.scorer.score(request, slot, events) for slot in pinned.values()}
    listed = iter(chosen)
    answer: list[tuple[int, float]] = []
    for place in range(request.n):
        own = (pinned[place], scores[pinned[place]]) if place in pinned else next(listed, None)
        if own is not None:
            answer.append(own)
    return answer


def look_up_in_steps(shared: SharedModel, rules: Rules) -> Generator[None, None, None]:
    """Look up which items each boost applies to, one boost per step, so that `ruled` finds the result cached.

    If items change between two steps, all boosts are looked up again; after `MAX_LOOK_UPS` passes `ruled` does it itself.
    """
    for _ in range(MAX_LOOK_UPS):
        changes = shared.catalogue.changes
        for number in range(len(rules.boosts)):
            _boosted(shared, rules.boosts, number)
            yield
        if shared.catalogue.changes == changes:
            return


def _asked(rules: Rules, wanted: int) -> int:
    """Return how many items to request from the scorer to pick `wanted` ones."""
    if rules.diversity:
        return max(POOL * wanted, 100)
    return 4 * wanted + 16 if rules.most_per else wanted


def _mask(shared: SharedModel, excluded: Flags) -> Flags:
    return excluded.copy() if len(excluded) else np.zeros(len(shared.catalogue.ids), np.uint8)


def _added(shared: SharedModel, boosts: Sequence[Boost]) -> Any:
    """Return by slot the logarithm of all matching factors: scores are logarithms of odds."""
    if not boosts:
        return np.zeros(0, np.float32)
    added = np.zeros(len(shared.catalogue.ids), np.float32)
    for number, boost in enumerate(boosts):
        added += (_boosted(shared, boosts, number) == 0) * np.float32(math.log(boost.factor))
    return added


def _boosted(shared: SharedModel, boosts: Sequence[Boost], number: int) -> Flags:
    """Return by slot 0 where a boost applies to the item."""
    try:
        return refused_slots(shared.catalogue, shared.encoder, boosts[number].where)
    except InvalidInput as error:
        error.field = f"rules.boosts[{number}].{error.field or 'where'}"
        raise


def _pinned(shared: SharedModel, pins: Mapping[int, str], mask: Flags, n: int) -> dict[int, int]:
    """Return by place, from 0, the slots of those pinned items that are live and may be recommended."""
    catalogue, places = shared.catalogue, dict[int, int]()
    for position, item in sorted(pins.items()):
        if position <= n and item in catalogue and not mask[catalogue.slot(item)]:
            places[position - 1] = catalogue.slot(item)
    return places


def _picked(
    shared: SharedModel, found: Sequence[tuple[int, float]], wanted: int, caps: "_Caps", diversity: float
) -> list[tuple[int, float]]:
    """Pick the first items of a ranking that caps allow or, with diversity, those of the best marginal relevance."""
    if not diversity:
        taken: list[tuple[int, float]] = []
        for slot, score in found:
            if len(taken) == wanted:
                break
            if caps.take(slot):
                taken.append((slot, score))
        return taken
    return _diverse(shared, found, wanted, caps, diversity)


def _diverse(
    shared: SharedModel, found: Sequence[tuple[int, float]], wanted: int, caps: "_Caps", diversity: float
) -> list[tuple[int, float]]:
    """Pick by maximal marginal relevance: (1 − d) score − d cosine with the most similar item above; scores from 0 to 1."""
    if not found:
        return []
    vectors = _unit_vectors(shared, [slot for slot, _ in found])
    score = np.array([own for _, own in found])
    relevance = (score - score.min()) / max(float(score.max() - score.min()), 1e-12)
    nearest, left = np.zeros(len(found)), np.ones(len(found), np.bool_)
    taken: list[tuple[int, float]] = []
    while len(taken) < wanted and left.any():
        value = np.where(left, (1.0 - diversity) * relevance - diversity * nearest, -np.inf)
        at = int(np.argmax(value))
        left[at] = False
        if caps.take(found[at][0]):
            taken.append(found[at])
            nearest = np.maximum(nearest, vectors @ vectors[at])
    return taken


def _unit_vectors(shared: SharedModel, slots: Sequence[int]) -> Doubles:
    """Return the vectors of items, summed over id and attributes, each scaled to length 1."""
    V, items = shared.machine.parameters.theta.V, shared.catalogue.items
    vectors = np.zeros((len(slots), V.shape[1]))
    for row, slot in enumerate(slots):
        position = int(items.position[slot])
        own = shared.catalogue.shared_features(position)
        id_column = int(items.rows.id_column[position])
        if id_column >= 0:
            own = [*own, (id_column, 1.0)]
        if own:
            columns, values = zip(*own, strict=True)
            vectors[row] = np.array(values) @ V[list(columns)]
    units: Doubles = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return units


class _Caps:
    """A count of the items of each value in a list, against their caps."""

    def __init__(self, shared: SharedModel, most_per: Mapping[str, int]) -> None:
        self._shared, self._most = shared, most_per
        fields = filterable(shared.encoder)
        for name in most_per:
            if name not in fields or (isinstance(fields[name], Number) and not getattr(fields[name], "bins", ())):
                known = ", ".join(own for own, kind in fields.items() if not isinstance(kind, Number) or kind.bins)
                message = f"most_per must name an item field of categories ({known or 'none'}), got {shown(name)}"
                raise _refused("rules.most_per", message)
        self._fields = {name: fields[name] for name in most_per}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in most_per}
        self._raws: dict[str, dict[str, Any]] = {name: {} for name in most_per}
        self._known: dict[tuple[str, type, Any], str | None] = {}  # a value's label, by field and type: True == 1

    def take(self, slot: int) -> bool:
        """Count an item and return True, unless one of its values is at its cap."""
        own = {name: self._labels(name, slot) for name in self._most}
        if any(self._counts[name][label] >= self._most[name] for name, labels in own.items() for label in labels):
            return False
        for name, labels in own.items():
            self._counts[name].update(labels)
        return True

    def full(self) -> Flags:
        """Return by slot whether an item has a value at its cap."""
        full = np.zeros(len(self._shared.catalogue.ids), np.uint8)
        for name, counts in self._counts.items():
            raws = [self._raws[name][label] for label, count in counts.items() if count >= self._most[name]]
            if raws:
                full |= refused_slots(self._shared.catalogue, self._shared.encoder, {name: {"not": raws}})
        return full

    def _labels(self, name: str, slot: int) -> list[str]:
        raw = plain(self._shared.catalogue.attributes[slot].get(name))
        if raw is None:
            return []
        raws = list(raw) if isinstance(raw, list | tuple) else [raw]
        labels = [self._label(name, own) for own in raws]
        return [label for label in labels if label is not None]

    def _label(self, name: str, raw: Any) -> str | None:
        key = (name, type(raw), raw)
        if key not in self._known:
            field = self._fields[name]
            features = field.features("item", [raw] if field.kind == "set" else raw)
            self._known[key] = features[0][0] if features else None
            if features:
                self._raws[name][features[0][0]] = raw
        return self._known[key]


def _refused(name: str, message: str) -> InvalidInput:
    error = InvalidInput(message)
    error.field = name if name.startswith("rules.") else f"rules.{name}"
    return error
