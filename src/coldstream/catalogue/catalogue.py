"""The items there are, what they bring, and their exact scores."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Doubles, Flags, Floats, Integers, checked_columns, frozen, grown
from coldstream.catalogue.answers import Scan
from coldstream.catalogue.index import Index, MaterialisedIndex, SignatureIndex
from coldstream.catalogue.lineup import Lineup
from coldstream.catalogue.neighbours import count_choice, restored, take_out, with_room, with_slot
from coldstream.catalogue.neighbours import state as neighbours_state
from coldstream.catalogue.ranking import RANK_RULES, Merit, Rank, best, rank_by, rank_of
from coldstream.catalogue.shapes import Items, Neighbours, Person, Trends
from coldstream.catalogue.signatures import Signatures
from coldstream.catalogue.ties import add_ties, ties
from coldstream.catalogue.trends import NO_COUNT, count_touch, enter, leave
from coldstream.config import RankRule
from coldstream.features.history import Note
from coldstream.features.sparse import Sparse
from coldstream.model.compiled import direct
from coldstream.model.shapes import Theta

# Signatures per item. The gap between the two keeps the choice of index from flapping.
MANY_SIGNATURES, FEW_SIGNATURES = 0.5, 0.25

_best, _rank_of, _rank_by, _count_touch = direct(best), direct(rank_of), direct(rank_by), direct(count_touch)
_add_ties, _count_choice = direct(add_ties), direct(count_choice)


class Mark(NamedTuple):
    """How far a catalogue had come."""

    born: int | None  # the birth of a slot that was live once; None where the item will need a new slot
    births: int
    unsorted: int
    signatures: int
    trend: tuple[Floats, int, int] | None  # level, clock and times of that slot
    untried: Doubles


class Catalogue:
    """Items in slots. An id keeps its slot for life, also while it is not live: users' pasts refer to it."""

    def __init__(self, sign: float, factors: int, rank_rule: RankRule, trends: Trends, neighbours: Neighbours) -> None:
        self._sign, self._factors, self._rank_rule = sign, factors, RANK_RULES[rank_rule]
        self.ids: list[str] = []
        self.attributes: list[Mapping[str, Any]] = []
        self.notes: list[Note] = []
        self.longest = 0
        """The most shared features any item has had."""
        self._slots: dict[str, int] = {}
        self._signatures = Signatures()
        self._index: Index = SignatureIndex(sign, factors)
        self.materialised = False
        self._lineup = Lineup(len(trends.rate))
        self._live = self._lineup.view()
        none = np.zeros(0, np.int32)
        self.items = Items(
            own=none,
            signature=none,
            born=np.zeros(0, np.int64),
            live=none,
            shared=self._signatures.view(),
            trends=trends,
            neighbours=neighbours,
        )
        self._births = 0
        self._unsorted = 0

    def __len__(self) -> int:
        """How many items are live."""
        return self._lineup.count

    def __contains__(self, item: str) -> bool:
        slot = self._slots.get(item)
        return slot is not None and bool(self.items.signature[slot] >= 0)

    def slot(self, item: str) -> int:
        """The slot of an id that was put at least once."""
        return self._slots[item]

    def slots(self, items: Iterable[str]) -> Integers:
        """The slots of those ids that have one."""
        known = self._slots
        return np.array([known[item] for item in items if item in known], np.int32)

    @property
    def births(self) -> int:
        """How many items ever came."""
        return self._births

    @property
    def has_neighbours(self) -> bool:
        """Whether any feature ties items to users."""
        return bool((self.items.neighbours.column >= 0).any())

    def neighbourhood(self, shared: Sparse) -> int:
        """Whom an item with these features is scanned with: items of one signature share a query vector."""
        return self._signatures.number(shared)

    # What changes

    def put(
        self, theta: Theta, item: str, own: int, shared: Sparse, attributes: Mapping[str, Any], note: Note, clock: int
    ) -> int:
        """Add an item, or give it other attributes; its slot."""
        slot = self._slots.get(item)
        if slot is None:
            slot = self._new_slot(item)
        if self.items.signature[slot] >= 0:
            self._signatures.drop(int(self.items.signature[slot]))
        else:
            self._lineup.append(slot)
            self._show_lineup()
            self.items.born[slot] = self._births
            self.items.neighbours.chosen[slot] = 0
            if len(self.items.trends.rate):
                enter(self.items.trends, slot, clock)
                self._lineup.follow(self.items.trends, slot)
            self._births += 1
            self._unsorted += 1
        self.attributes[slot], self.notes[slot] = attributes, note
        self.longest = max(self.longest, len(shared.column))
        self._describe(slot, own, self._signatures.take(shared))
        self.items = self.items._replace(shared=self._signatures.view())
        self._index.put(theta, self.items, slot)
        return slot

    def remove(self, item: str, clock: int) -> int:
        """Take an item out, and its trend and its neighbours with it; the number of the signature it had."""
        slot = self._slots[item]
        place = int(self.items.signature[slot])
        self._index.remove(slot)
        self._signatures.drop(int(self.items.signature[slot]))
        self.items.own[slot] = self.items.signature[slot] = -1
        leave(self.items.trends, slot, clock)
        self.items.trends.level[slot] = NO_COUNT
        take_out(self.items.neighbours, slot)
        self.attributes[slot], self.notes[slot] = {}, ()
        self._lineup.remove(slot)
        self.items = self.items._replace(shared=self._signatures.view())
        self._show_lineup()
        return place

    def mark(self, item: str) -> Mark | None:
        """What `take_back` needs to undo the put of an item; None if it is live, and nothing will be put."""
        if item in self:
            return None
        slot = self._slots.get(item)
        born = None if slot is None else int(self.items.born[slot])
        trends = self.items.trends
        trend = None if slot is None else (trends.level[slot].copy(), trends.clock[slot], trends.times[slot])
        return Mark(born, self._births, self._unsorted, self._signatures.count, trend, trends.untried.copy())

    def take_back(self, item: str, mark: Mark, clock: int) -> None:
        """Undo the put of an item that was not live."""
        self.remove(item, clock)
        slot, trends = self._slots[item], self.items.trends
        trends.untried[:] = mark.untried
        if mark.trend is not None:
            trends.level[slot], trends.clock[slot], trends.times[slot] = mark.trend
        self._births, self._unsorted = mark.births, mark.unsorted
        self._signatures.shrink(mark.signatures)
        self.items = self.items._replace(shared=self._signatures.view())
        if mark.born is not None:
            self.items.born[self._slots[item]] = mark.born
        else:
            self.ids.pop()
            self.attributes.pop()
            self.notes.pop()
            del self._slots[item]

    def take_notes(self, note: Callable[[str, Mapping[str, Any]], Note]) -> None:
        """Note again what history keeps of every live item."""
        for slot in self.items.live.tolist():
            self.notes[slot] = note(self.ids[slot], self.attributes[slot])

    def settle(self, theta: Theta) -> None:
        """After items came or went for good: choose the index by the counts, and sort what the scan reads."""
        signatures, items = len(self._signatures), len(self)
        wanted = signatures > items * (FEW_SIGNATURES if self.materialised else MANY_SIGNATURES)
        if wanted != self.materialised:
            self.materialised = wanted
            self.rebuild(theta)
        if self._unsorted > 64 + items // 8:
            self._lineup.sort()
            self._unsorted = 0

    def touch(self, theta: Theta, columns: Integers) -> None:
        """Parameters of these columns have changed."""
        self._index.touch(theta, self.items, columns)

    def rebuild(self, theta: Theta) -> None:
        """Fold everything again: any parameter may have changed."""
        kind = MaterialisedIndex if self.materialised else SignatureIndex
        self._index = kind(self._sign, self._factors)
        self._index.prepare(theta, self.items)
        for slot in self.items.live:
            self._index.put(theta, self.items, int(slot))

    def count_trend(self, slot: int, clock: int) -> None:
        """One more choice of an item, at this clock, for its trends."""
        if len(self.items.trends.rate):
            _count_touch(self.items.trends, slot, clock)
            self._lineup.follow(self.items.trends, slot)

    def adopt(self, trends: Trends) -> None:
        """Take over trends that were counted on a copy."""
        self.items = self.items._replace(trends=trends)
        self._lineup.follow_all(trends)

    def count_neighbours(self, slot: int, past: Integers) -> None:
        """One more choice of an item, after these, for its neighbours."""
        if self.has_neighbours:
            neighbours = with_room(self.items.neighbours, len(past))
            if neighbours is not self.items.neighbours:
                self.items = self.items._replace(neighbours=neighbours)
            _count_choice(neighbours, slot, past)

    # What only reads

    def features(self, slot: int, clock: int, person: Person) -> Sparse:
        """All features of an item: its id, what it shares, its trends at this clock, and its ties to a user."""
        items, trends = self.items, self.items.trends
        own = items.own[slot : slot + 1]
        own = own[own >= 0]
        shared = self._signatures.features(int(items.signature[slot]))
        elapsed = np.float32(max(clock - trends.clock[slot], 0)) if len(trends.rate) else np.float32(0)
        counted = trends.level[slot] - trends.rate * elapsed
        newcomer = trends.guess - np.float32(trends.fade) * elapsed
        levels = np.maximum(counted if trends.times[slot] else newcomer, np.float32(0))
        tied = ties(items.neighbours, person, np.array([slot], np.int32))[0]
        ties_shown = (tied > 0) & (items.neighbours.column >= 0)
        columns = [own, shared.column, trends.column[levels > 0], items.neighbours.column[ties_shown]]
        values = [np.ones(len(own), np.float32), shared.value, levels[levels > 0], tied[ties_shown]]
        return Sparse(np.concatenate(columns), np.concatenate(values))

    def scores(self, theta: Theta, factors: Floats, clock: int, person: Person) -> Floats:
        """What every live item adds to the score of a request that folds to this vector, in the order of the scan."""
        scores = self._index.scores(theta, self.items, self._live, factors, clock)
        if len(person.past):
            _add_ties(theta, self.items.neighbours, person, self.items.live, self._lineup.position, scores)
        return scores

    def top(self, scores: Floats, offset: float, barred: Flags, had: Integers, n: int) -> tuple[list[int], list[float]]:
        """Slots and whole scores of the best n neither barred nor had; the offset is the request's own part of the scores.

        Where `barred` is empty, nothing is.
        """
        n = min(n, len(self))
        slots, totals = np.empty(n, np.int32), np.empty(n, np.float64)
        items = self.items
        found = _best(scores, items.live, items.born, barred, had, Merit(self._rank_rule, offset), slots, totals)
        if found < n:
            slots, totals = slots[:found], totals[:found]
        return slots.tolist(), totals.tolist()

    def scan(self) -> Scan:
        """What a scan reads besides Θ and the items. It holds until anything changes."""
        index, position = self._index, self._lineup.position
        return Scan(self._live, position, index.folded, self.materialised, self._sign, self._rank_rule)

    def rank(self, scores: Floats, offset: float, barred: Flags, slot: int) -> Rank:
        """Where a live item stands among those not barred and itself."""
        return Rank(*_rank_of(scores, self.items, barred, Merit(self._rank_rule, offset), slot))

    def rank_by(self, scores: Doubles, barred: Flags, slot: int) -> Rank:
        """Where a live item stands among those not barred and itself, by numbers per slot."""
        return Rank(*_rank_by(scores, self.items.live, barred, slot))

    def holding(self, columns: Iterable[int]) -> Flags:
        """Per slot, whether its shared features include any of the columns."""
        shared, wanted = self._signatures.view(), set(columns)
        holds = np.zeros(len(shared.start) + 1, np.uint8)  # the last one answers for signature −1
        for column in wanted:
            entry = int(shared.head[column]) if column < len(shared.head) else -1
            while entry >= 0:
                number = int(shared.owner[entry])
                # An entry can outlive its signature; what the number holds now decides.
                holds[number] |= column in self._signatures.features(number).column
                entry = int(shared.following[entry])
        return holds[self.items.signature[: len(self.ids)]]

    # For snapshots

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What JSON holds and what arrays hold of the catalogue."""
        slots = len(self.ids)
        features = [self._signatures.features(int(s)) if s >= 0 else None for s in self.items.signature[:slots]]
        lengths = [0 if f is None else len(f.column) for f in features]
        held = [f for f in features if f is not None]
        document = {
            "ids": list(self.ids),
            "attributes": [dict(a) for a in self.attributes],
            "notes": list(self.notes),
            "materialised": self.materialised,
            "signatures": self._signatures.count,
            "free_signatures": self._signatures.free(),
            "births": self._births,
            "unsorted": self._unsorted,
        }
        return document, {
            "own": self.items.own[:slots].copy(),
            "signature": self.items.signature[:slots].copy(),
            "born": self.items.born[:slots].copy(),
            "live": self.items.live.copy(),
            "length": np.array(lengths, np.int32),
            "column": np.concatenate([np.zeros(0, np.int32), *(f.column for f in held)]),
            "value": np.concatenate([np.zeros(0, np.float32), *(f.value for f in held)]),
            "level": self.items.trends.level[:slots].copy(),
            "clock": self.items.trends.clock[:slots].copy(),
            "times": self.items.trends.times[:slots].copy(),
            "untried": self.items.trends.untried.copy(),
            "newcomers": self.items.trends.newcomers.copy(),
            "guess": self.items.trends.guess.copy(),
            **neighbours_state(self.items.neighbours, slots),
        }

    def restore(self, theta: Theta, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `state`, into an empty catalogue."""
        for item in document["ids"]:
            self._new_slot(item)
        slots, columns = len(self.ids), len(theta.w)
        live = checked_columns("live", arrays["live"], 0, slots)
        own_columns = checked_columns("own", arrays["own"], -1, columns)
        signature = checked_columns("signature", arrays["signature"], -1, document["signatures"])
        shared = checked_columns("column", arrays["column"], 0, columns)
        lengths = checked_columns("length", arrays["length"], 0, len(shared) + 1)
        value = arrays["value"]
        born = arrays["born"]
        fit = len(np.unique(live)) == len(live) and {slots} == {len(own_columns), len(signature), len(lengths)}
        fit = fit and born.dtype == np.int64 and born.shape == (slots,)
        fit = fit and value.dtype == np.float32 and len(value) == len(shared) == lengths.sum()
        if not fit or not np.isfinite(value).all() or (signature[live] < 0).any():
            raise ValueError("the arrays of the catalogue do not fit together")
        ends, held = np.cumsum(lengths), []
        for slot in live.tolist():
            self._lineup.append(slot)
            self._describe(slot, int(own_columns[slot]), int(signature[slot]))
            own = slice(ends[slot] - lengths[slot], ends[slot])
            held.append((int(signature[slot]), Sparse(shared[own], value[own])))
        self._signatures.restore(document["signatures"], document["free_signatures"], held)
        self.attributes = [{name: frozen(raw) for name, raw in a.items()} for a in document["attributes"]]
        self.notes = [tuple((field, value, weight) for field, value, weight in note) for note in document["notes"]]
        self.longest = int(arrays["length"].max(initial=0))
        self.items.born[:slots] = born
        self._births, self._unsorted = document["births"], document["unsorted"]
        self._restore_trends(slots, arrays)
        self._lineup.follow_all(self.items.trends)
        self._show_lineup()
        neighbours = restored(self.items.neighbours, slots, live, arrays)
        self.items = self.items._replace(shared=self._signatures.view(), neighbours=neighbours)
        self.materialised = bool(document["materialised"])
        self.rebuild(theta)

    def _restore_trends(self, slots: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        trends = self.items.trends
        for name in ("level", "clock", "times", "untried", "newcomers", "guess"):
            source, own = arrays[name], getattr(trends, name)
            rows = slots if name in ("level", "clock", "times") else len(own)
            finite = np.isfinite(source) | (np.isneginf(source) if name == "level" else False)
            if source.dtype != own.dtype or source.shape != (rows, *own.shape[1:]) or not finite.all():
                raise ValueError(f"{name} has type {source.dtype} and shape {source.shape}, or is not finite")
            own[:rows] = source
        if not np.isneginf(trends.level[:slots][trends.times[:slots] == 0]).all():
            raise ValueError("an untried item has a level")

    def _new_slot(self, item: str) -> int:
        slot = self._slots[item] = len(self.ids)
        self.ids.append(item)
        self.attributes.append({})
        self.notes.append(())
        items, trends = self.items, self.items.trends
        level, clock, times = trends.level, trends.clock, trends.times
        level, clock, times = grown(level, slot + 1, NO_COUNT), grown(clock, slot + 1), grown(times, slot + 1)
        level[slot], clock[slot], times[slot] = NO_COUNT, 0, 0
        trends = trends._replace(level=level, clock=clock, times=times)
        neighbours = with_slot(items.neighbours, slot)
        own, signature = grown(items.own, slot + 1, -1), grown(items.signature, slot + 1, -1)
        own[slot] = signature[slot] = -1
        born = grown(items.born, slot + 1)
        born[slot] = 0
        self.items = items._replace(own=own, signature=signature, born=born, trends=trends, neighbours=neighbours)
        return slot

    def _describe(self, slot: int, own: int, signature: int) -> None:
        """Write down a live item's id column and signature, where learning and where the scan look for them."""
        self.items.own[slot], self.items.signature[slot] = own, signature
        self._lineup.describe(slot, own, signature)

    def _show_lineup(self) -> None:
        self._live = self._lineup.view()
        self.items = self.items._replace(live=self._live.slot)
