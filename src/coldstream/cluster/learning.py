"""Learning as one of several learners, which learns from events of its own users, and only counts all others."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coldstream.engine.engine import Engine
from coldstream.engine.learning import NOBODY, Pending
from coldstream.engine.shared_model import SharedModel
from coldstream.events.clock import Clock
from coldstream.events.event import Event
from coldstream.support.memory_tuning import collection_paused
from coldstream.users.states import UserStates


class Elsewhere(NamedTuple):
    """An event whose user belongs to another learner: it is counted here, and learned there."""

    event: Event
    recent: Sequence[int]
    """Slots of the user's last items, the latest at the end; −1 − n stands for the item of event n of the batch."""
    counted: bool
    """Whether the event counts in trends, neighbours and choices."""


def replay_own(engine: Engine, lines: Sequence[tuple[int, Event | Elsewhere]], slots: list[int]) -> None:
    """Learn from a part of a batch of a log, and only count the events of users who belong to other learners.

    `slots` holds the slots of the items of the batch's earlier events; those of this part are appended.
    """
    with collection_paused():
        engine.clock = learn_own(engine.shared, engine.users, lines, slots, engine.clock)


def learn_own(
    shared: SharedModel,
    users: UserStates,
    lines: Iterable[tuple[int, Event | Elsewhere]],
    slots: list[int],
    clock: Clock,
) -> Clock:
    """Learn events with their positions, and count those that others learn; return the clock after them.

    `slots` holds the slots of the items of the batch's earlier events; those of this part are appended.
    """
    pending = _PartPending(shared, users, clock, observe=True)
    for position, line in lines:
        if isinstance(line, Elsewhere):
            recent = line.recent
            if recent and min(recent) < 0:
                recent = [slot if slot >= 0 else slots[-1 - slot] for slot in recent]
            slots.append(pending.count(line.event, position, recent, line.counted))
        else:
            slots.append(pending.add(line, position).number)
            shared.encoder.vocabulary.commit()
    pending.learn()
    return pending.clock


class _PartPending(Pending):
    """Pending events, some of which are only counted."""

    def count(self, event: Event, position: int, recent: Sequence[int], counted: bool) -> int:
        """Count an event of a user unknown here, chosen after `recent` items; return the slot of its item."""
        shared = self._shared
        comes, clock = self._begin(event, position)
        new = comes or event.context
        slot = shared.admit_item(event, clock) if new else shared.catalogue.slot(event.item)
        self._append(0, slot, clock, event.time, recent)
        self._weights.append(0.0)
        self._counted.append(counted)
        self._learned.append(False)
        self._passed_over.append([])
        self._seen_by.append(NOBODY)
        self.clock = clock.after(event.time)
        if comes:
            self.learn()
            shared.catalogue.settle()
        if new:
            shared.encoder.vocabulary.commit()
        return slot
