"""Step 1, batch training: epochs over known events, reshuffled, at the speed of the kernels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coldstream.arrays import Flags, Floats, Integers, Longs
from coldstream.catalogue.catalogue import Catalogue
from coldstream.catalogue.contrast import Batch, Draws, Ties, ties_before
from coldstream.catalogue.shapes import Items, Person, Trends
from coldstream.catalogue.ties import TIES
from coldstream.catalogue.trends import replay_touches
from coldstream.features.sparse import Sparse, joined
from coldstream.features.users import Seen
from coldstream.model.compiled import direct

_ties_before = direct(ties_before)


class Replay(NamedTuple):
    """What the trends were during a batch, and what they are after it."""

    trends: Trends
    level: Floats  # (n, H): of the item, after each event
    guess: Floats  # (n, H): of a newcomer, before each
    clock: int  # of the first event


def replayed(trends: Trends, slots: Integers, came: Flags, clock: int) -> Replay:
    """Count a batch for the trends in order of time, on these trends; `came` says which items came with their event."""
    level, guess = (np.zeros((len(slots), len(trends.rate)), np.float32) for _ in range(2))
    if len(trends.rate):
        replay_touches(trends, slots, came, clock, level, guess)
    return Replay(trends, level, guess, clock)


def batch_of(
    items: Items, contexts: Sequence[Sparse], slots: Integers, users: Integers, had: Sequence[Integers], replay: Replay
) -> Batch:
    """Events in order of time, encoded once: contexts, item slots, user numbers, and what each user had in the end."""
    return Batch(
        offset=_offsets([len(context.column) for context in contexts]),
        x=joined(*contexts),
        slot=slots,
        user=users,
        had_offset=_offsets([len(slots_had) for slots_had in had]),
        had=np.concatenate(had),
        touch_offset=_offsets(np.bincount(slots, minlength=len(items.own)).tolist()),
        touch=np.argsort(slots, kind="stable").astype(np.int32),
        level=replay.level,
        guess=replay.guess,
        clock=replay.clock,
    )


class Users(NamedTuple):
    """The users of a batch before it, and what each event found of them."""

    pasts: Sequence[Integers]  # by event: the last items whose neighbours count
    seen: Sequence[Seen]  # by user: what each had before the batch; counted on


def count_in_order(
    catalogue: Catalogue, batch: Batch, users: Users, came: Flags, orders: Sequence[Integers], draws: Sequence[Draws]
) -> list[Ties]:
    """Count a batch for the neighbours in order of time; for each epoch, what tied its candidates to the users by then.

    Whatever order an epoch runs in, no event sees its own future. Draws are keyed, so they are known before.
    """
    found = [_Found() for _ in orders]
    if catalogue.has_neighbours:
        chosen = catalogue.items.neighbours.chosen
        chosen[batch.slot[came > 0]] = -1  # not live before their event, though users may have had them in an earlier life
        positions = [np.argsort(order).tolist() for order in orders]
        for e, (slot, user) in enumerate(zip(batch.slot.tolist(), batch.user.tolist(), strict=True)):
            if came[e]:
                chosen[slot] = 0
            past, seen = users.pasts[e], users.seen[user]
            avoided = batch.had[batch.had_offset[user] : batch.had_offset[user + 1]]
            person = Person(past, seen.slots(), seen.times())
            for epoch, drawn in enumerate(draws):
                own = Draws(drawn.key, drawn.event + positions[epoch][e], drawn.negatives, drawn.avoids)
                found[epoch].add(*_ties_before(catalogue.items, own, slot, avoided, person))
            catalogue.count_neighbours(slot, past)
            chosen = catalogue.items.neighbours.chosen
            seen.add(slot)
    return [own.ties(len(batch.slot)) for own in found]


class _Found:
    """Ties as they are found, event by event. Many small arrays become one now and then: they weigh more than they hold."""

    _MANY = 1024

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._candidates = [np.zeros(0, np.int32)]
        self._values = [np.zeros((0, TIES), np.float32)]

    def add(self, candidate: Integers, value: Floats) -> None:
        """Those of the next event."""
        self._counts.append(len(candidate))
        self._candidates.append(candidate)
        self._values.append(value)
        if len(self._counts) % self._MANY == 0:
            last = len(self._candidates) - self._MANY
            self._candidates[last:] = [np.concatenate(self._candidates[last:])]
            self._values[last:] = [np.concatenate(self._values[last:])]

    def ties(self, events: int) -> Ties:
        """All of them."""
        counts = self._counts or [0] * events
        return Ties(_offsets(counts), np.concatenate(self._candidates), np.concatenate(self._values))


def _offsets(counts: Sequence[int]) -> Longs:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
