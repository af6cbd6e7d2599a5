"""One shard of a catalogue: what a scan reads of its items, and nothing else that is known of them."""

from typing import NamedTuple, TypeAlias

import numpy as np

from coldstream.arrays import Doubles, Flags, Floats, Integers, Longs, grown
from coldstream.catalogue.combinations import CombinationTable
from coldstream.catalogue.neighbours import neighbours_of
from coldstream.catalogue.scan_order import ScanOrder
from coldstream.catalogue.shapes import Items, Trends
from coldstream.catalogue.windows import WindowTable
from coldstream.errors import ColdstreamError
from coldstream.features.sparse import sparse
from coldstream.model.compiled import unchecked_entry
from coldstream.model.shapes import ACROSS, Theta
from coldstream.scoring.questions import Part, Question, SlotAddends, SlotMarks
from coldstream.scoring.ranking import HIGHEST
from coldstream.scoring.requests import RequestBatch
from coldstream.scoring.scan import Answers, FoldedRequests, ItemVectors, Standing
from coldstream.scoring.shard_scan import best_of_shard, score_in_shard, standing_in_shard

_best, _standing = unchecked_entry(best_of_shard), unchecked_entry(standing_in_shard)
_score = unchecked_entry(score_in_shard)

_NOTHING, _NO_FLOATS, _NO_TABLE = np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros((0, 0), np.float32)
_NO_REQUEST = sparse([], [])


class ShardsLost(ColdstreamError):
    """Shards that do not answer, or do not know what they should: others have to be begun, and filled anew."""


class ShardShape(NamedTuple):
    """What all items of a catalogue have in common, for good."""

    factors: int
    rate: Floats  # (H,): of the trends
    prior_decay: float
    crossed: Flags  # (3,): which of `follows`, `together` and `again` the schema has


class Update(NamedTuple):
    """What has changed of a shard's items: all that it has to know of each, by the shard's own slots."""

    gone: Integers
    slot: Integers  # (n,): ascending
    weight: Floats  # (n,): w of their ids
    vector: Floats  # (n, k)
    combination: Integers  # (A, n)
    number: Floats  # (B, n)
    level: Floats  # (H, n)
    counted_at: Longs
    unchosen: Floats
    choices: Integers
    registered_at: Longs

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(own.nbytes for own in self)


class Best(NamedTuple):
    """The best of a shard's items for every request, best first, by the slots of the whole catalogue."""

    offset: Integers  # (B + 1,)
    slot: Integers
    score: Doubles  # without the request's own part
    arrival: Longs


_Asked: TypeAlias = tuple[Theta, Items, ItemVectors, RequestBatch, FoldedRequests, SlotMarks, SlotAddends]


def warm_up(shape: ShardShape) -> None:
    """Compile, or load what was compiled before."""
    own, floats, longs = Shard(0, 1, shape), np.zeros(1, np.float32), np.zeros(1, np.int64)
    fields, levels = np.zeros((0, 1), np.int32), np.zeros((len(shape.rate), 1), np.float32)
    vector, one = np.zeros((1, shape.factors), np.float32), np.zeros(1, np.int32)
    scan = (fields, np.zeros((0, 1), np.float32), levels, longs, floats, one, longs)
    own.update(1, Update(_NOTHING, one, floats, vector, *scan))
    nothing, offset, neither = np.zeros((1, 0), np.float32), np.array([0, 1], np.int32), np.full(1, -1, np.int32)
    folded = FoldedRequests(np.zeros(1), vector, np.zeros((1, 1), np.float32), nothing, levels.T.copy())
    question = Question(folded, np.zeros(3, np.float32), levels[:, 0].copy(), offset, neither, neither, (0, 0), HIGHEST, 0)
    none = np.zeros(2, np.int32)
    marks = SlotMarks(none, _NOTHING, np.zeros(0, np.uint8), _NO_FLOATS)
    part = Part(np.zeros((0, 0), np.uint8), 0, _NO_TABLE, marks, SlotAddends(none, _NOTHING, _NO_FLOATS))
    own.best(1, question, part)
    own.standing(1, question, part, own.score(1, question, part, 0), 0)


class Shard:
    """Items of one shard, and their scores."""

    def __init__(self, number: int, count: int, shape: ShardShape) -> None:
        self.number, self.count = number, count
        self.known = 0
        """How many updates it has taken up."""
        self._order, self._shape = ScanOrder(0, 0, len(shape.rate)), shape
        self._matrix, self._weight = np.zeros((0, shape.factors), np.float32), np.zeros(0, np.float32)
        self._choices, self._registered_at = np.zeros(0, np.int32), np.zeros(0, np.int64)
        column = np.where(shape.crossed > 0, np.arange(len(shape.crossed)), -1).astype(np.int32)
        self._neighbours, self._windows = neighbours_of(column), WindowTable().windows
        self._combinations = CombinationTable().view()

    def __len__(self) -> int:
        """How many items it has."""
        return self._order.count

    def update(self, number: int, update: Update) -> int:
        """Take up what has changed, as update of this number: none may be missing. How many it knows now."""
        if number != self.known + 1:
            raise ShardsLost(f"shard {self.number} knows {self.known} updates and was sent number {number}")
        order, slots = self._order, update.slot
        self._take_fields(len(update.combination), len(update.number))
        for slot in update.gone.tolist():
            order.remove(slot)
            self._choices[slot] = -1
        if len(slots):
            self._make_room(int(slots[-1]) + 1)
            new = slots[order.position[slots] < 0]
            order.append_all(new, new)  # sorted by them, rows of vectors are read forwards
            at, rows = order.position[slots], order.rows
            rows.combination[:, at], rows.number[:, at], rows.level[:, at] = update.combination, update.number, update.level
            rows.counted_at[at], rows.unchosen[at] = update.counted_at, update.unchosen
            self._matrix[slots], self._weight[slots] = update.vector, update.weight
            self._choices[slots], self._registered_at[slots] = update.choices, update.registered_at
        order.settle()
        self.known = number
        return number

    def best(self, known: int, question: Question, part: Part) -> Best:
        """Its best items for every request."""
        items = self._items(known, question)
        wanted = np.minimum(np.diff(question.answers), len(self))
        offset = np.concatenate([[0], np.cumsum(wanted)]).astype(np.int32)
        most = int(offset[-1])
        out = Answers(np.zeros(most, np.int32), np.empty(most), np.empty(len(wanted), np.int32))
        _best(*self._asked(items, question, part, offset), question.rank_rule, question.clock, out)
        ends = np.cumsum(out.found)
        kept = np.arange(int(ends[-1])) + np.repeat(offset[:-1] - (ends - out.found), out.found)
        slot = out.slot[kept]
        first = np.concatenate([[0], ends]).astype(np.int32)
        return Best(first, slot * self.count + self.number, out.score[kept], self._registered_at[slot])

    def standing(self, known: int, question: Question, part: Part, score: float, slot: int) -> Standing:
        """Where a score stands among its items for one request, but for the item of a slot of the whole catalogue."""
        items = self._items(known, question)
        position = int(self._order.position[slot // self.count]) if slot % self.count == self.number else -1
        asked = self._asked(items, question, part, question.answers)
        return Standing(*map(int, _standing(*asked, question.rank_rule, question.clock, score, position)))

    def score(self, known: int, question: Question, part: Part, slot: int) -> float:
        """The score of one of its items, of a slot of the whole catalogue, for a request that excludes nothing."""
        items = self._items(known, question)
        position = int(self._order.position[slot // self.count])
        return float(_score(*self._asked(items, question, part, question.answers), question.clock, position))

    def _items(self, known: int, question: Question) -> Items:
        """Its items as kernels see them, where it knows what it should."""
        if known != self.known:
            raise ShardsLost(f"shard {self.number} knows {self.known} updates and should know {known}")
        self._take_fields(*question.fields)
        shape, order, nothing = self._shape, self._order, _NOTHING
        none = np.zeros(0)
        trends = Trends(shape.rate, nothing, shape.prior_decay, none, none.reshape(0, 0), question.prior)
        own = (self._choices, self._registered_at, np.zeros(0, np.uint8), self._combinations, nothing)
        return Items(order.count, order.rows, order.position, *own, trends, self._neighbours, self._windows)

    def _asked(self, items: Items, question: Question, part: Part, answers: Integers) -> _Asked:
        """What a kernel takes: Θ, the items, what they bring, the batch, and what was worked out of it."""
        theta = Theta(_NO_FLOATS, question.cross, np.zeros((0, self._shape.factors), np.float32), _NOTHING)
        rows = items.rows
        vectors = ItemVectors(
            *(ACROSS, self._matrix, self._weight, rows.id_column, rows.combination, rows.number),
            *(self._combinations, _NOTHING, _NO_TABLE, _NO_TABLE),
        )
        excluded = np.unpackbits(part.excluded, axis=1, count=part.slots)
        offset = np.zeros((4, len(answers)), np.int32)
        offset[3] = answers
        flags = np.zeros(len(question.mask), np.uint8)
        nobody = (_NO_REQUEST, _NOTHING, _NOTHING, _NOTHING, flags)
        batch = RequestBatch(offset, *nobody, excluded, question.mask, part.added, question.rule)
        return theta, items, vectors, batch, question.folded, part.marks, part.together

    def _take_fields(self, combinations: int, numbers: int) -> None:
        rows = self._order.rows
        more = max(combinations, len(rows.combination)), max(numbers, len(rows.number))
        if more != (len(rows.combination), len(rows.number)):
            self._order.add_fields(*more)

    def _make_room(self, slots: int) -> None:
        self._matrix, self._weight = grown(self._matrix, slots), grown(self._weight, slots)
        self._choices, self._registered_at = grown(self._choices, slots, -1), grown(self._registered_at, slots)
        self._order.position = grown(self._order.position, slots, -1)
