"""Two exact indexes behind one interface, chosen by counts.

Both hold only what follows from Θ and the catalogue, folded from scratch whenever a part of it moves. They never add
differences, so they cannot drift and need not be saved.
"""

from typing import Protocol

import numpy as np

from coldstream.arrays import Floats, Integers, grown
from coldstream.catalogue.scan import (
    Folded,
    Listed,
    fold_item,
    fold_items_of,
    fold_items_owning,
    fold_signature,
    refresh_signatures,
    score_materialised,
    score_signatures,
)
from coldstream.catalogue.shapes import Items, Live
from coldstream.model.compiled import direct
from coldstream.model.shapes import Theta

_refresh_signatures = direct(refresh_signatures)
_score_signatures, _score_materialised = direct(score_signatures), direct(score_materialised)
_fold_items_of, _fold_items_owning = direct(fold_items_of), direct(fold_items_owning)


class Index(Protocol):
    """What the catalogue asks of an index."""

    def put(self, theta: Theta, items: Items, slot: int) -> None:
        """An item is new or has another signature."""

    def remove(self, slot: int) -> None:
        """An item is gone."""

    def touch(self, theta: Theta, items: Items, columns: Integers) -> None:
        """Parameters of these columns have changed."""

    def prepare(self, theta: Theta, items: Items, /) -> None:
        """There may be more signatures, slots and columns than before."""

    def scores(self, theta: Theta, items: Items, live: Live, factors: Floats, clock: int) -> Floats:
        """What every live item adds to a request's own part of the score, in the order of the scan."""

    @property
    def folded(self) -> Folded:
        """The folded vectors: per signature, or per item."""


class SignatureIndex:
    """One folded vector per signature; items' own vectors are read where they are, in Θ.

    A shared feature costs O(k) per signature that has it, an item's own update nothing, a request (L + P)·k.
    """

    def __init__(self, sign: float, factors: int) -> None:
        self._sign = sign
        self._room = self._folded = Folded(np.zeros((0, factors), np.float32), np.zeros(0, np.float32))
        self._dirty = np.zeros(0, np.uint8)
        self._stale = np.zeros(0, np.int32)

    @property
    def folded(self) -> Folded:
        return self._folded

    def prepare(self, _theta: Theta, items: Items, /) -> None:
        rows = len(items.shared.start)
        self._room = Folded(grown(self._room.vector, rows), grown(self._room.bias, rows))
        self._folded = Folded(self._room.vector[:rows], self._room.bias[:rows])
        self._dirty, self._stale = grown(self._dirty, rows), grown(self._stale, rows)

    def put(self, theta: Theta, items: Items, slot: int) -> None:
        self.prepare(theta, items)
        fold_signature(theta, self._sign, items.shared, int(items.signature[slot]), self.folded)

    def remove(self, slot: int) -> None:
        """Nothing to do: a signature without items is never asked for."""

    def touch(self, theta: Theta, items: Items, columns: Integers) -> None:
        self.refresh(theta, items, columns)

    def refresh(self, theta: Theta, items: Items, columns: Integers) -> Integers:
        """Fold the signatures that contain any of the columns; their numbers."""
        found = _refresh_signatures(theta, self._sign, items.shared, columns, self._dirty, self._stale, self.folded)
        return self._stale[:found]

    def scores(self, theta: Theta, items: Items, live: Live, factors: Floats, clock: int) -> Floats:
        out = np.empty(len(live.slot), np.float32)
        _score_signatures(theta, self._sign, items.trends, live, self.folded, factors, clock, out)
        return out


class MaterialisedIndex:
    """One folded vector per item, for catalogues in which nearly every item has a signature of its own.

    A request costs L·k; a shared feature O(k) per item that has it.
    """

    def __init__(self, sign: float, factors: int) -> None:
        self._sign = sign
        self._signatures = SignatureIndex(sign, factors)
        self._folded = Folded(np.zeros((0, factors), np.float32), np.zeros(0, np.float32))
        self._slot_of = np.full(0, -1, np.int32)  # id column → slot
        self._listed = Listed(*(np.full(0, -1, np.int32) for _ in Listed._fields))

    @property
    def folded(self) -> Folded:
        return self._folded

    def prepare(self, theta: Theta, items: Items, /) -> None:
        self._signatures.prepare(theta, items)
        slots, signatures = len(items.own), len(items.shared.start)
        self._folded = Folded(grown(self._folded.vector, slots), grown(self._folded.bias, slots))
        self._slot_of = grown(self._slot_of, len(theta.w), -1)
        first, *by_slot = self._listed
        self._listed = Listed(grown(first, signatures, -1), *(grown(array, slots, -1) for array in by_slot))

    def put(self, theta: Theta, items: Items, slot: int) -> None:
        self.prepare(theta, items)
        self._signatures.put(theta, items, slot)
        self.remove(slot)
        self._list(slot, int(items.signature[slot]))
        if items.own[slot] >= 0:
            self._slot_of[items.own[slot]] = slot
        fold_item(theta, self._sign, items, slot, self._signatures.folded, self._folded)

    def remove(self, slot: int) -> None:
        first, after, before, under = self._listed
        if under[slot] < 0:
            return
        if before[slot] >= 0:
            after[before[slot]] = after[slot]
        else:
            first[under[slot]] = after[slot]
        if after[slot] >= 0:
            before[after[slot]] = before[slot]
        under[slot] = -1

    def touch(self, theta: Theta, items: Items, columns: Integers) -> None:
        stale = self._signatures.refresh(theta, items, columns)
        folded = self._signatures.folded
        _fold_items_of(theta, self._sign, items, stale, self._listed, folded, self._folded)
        _fold_items_owning(theta, self._sign, items, columns, self._slot_of, folded, self._folded)

    def scores(self, theta: Theta, items: Items, live: Live, factors: Floats, clock: int) -> Floats:
        out = np.empty(len(live.slot), np.float32)
        _score_materialised(theta, self._sign, items.trends, live, self._folded, factors, clock, out)
        return out

    def _list(self, slot: int, signature: int) -> None:
        first, after, before, under = self._listed
        before[slot], after[slot], under[slot] = -1, first[signature], signature
        if after[slot] >= 0:
            before[after[slot]] = slot
        first[signature] = slot
