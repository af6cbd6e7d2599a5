"""After any sequence of put, remove, learn, hide, go and come back, shards have the bits of one scan, on every path."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstream import (
    Again,
    Bounds,
    Categories,
    Diverged,
    Event,
    Follows,
    Id,
    InvalidInput,
    LastItem,
    LastItems,
    Number,
    Recommender,
    Schema,
    Together,
    Trend,
)
from coldstream.catalogue import slot_table
from coldstream.runtime.learners import LocalLearners
from coldstream.runtime.lines import Lines
from coldstream.runtime.records import Evicted, Interaction, ItemPut, ItemRemoved, Record
from coldstream.scoring.scorer import scorer_of
from coldstream.scoring.shards import LocalShards

SCHEMA = Schema(
    item=[Id(), Categories("genre"), Number("price", scale=10), Trend("hot", 3), Follows(), Together(length=2), Again()],
    context=[LastItem(), LastItems(length=3)],
)
NO_IDS = Schema(item=SCHEMA.item[1:], context=SCHEMA.context)
"""An item that goes has no column that tells of it."""
OWN: dict[str, Any] = {"seed": 3, "factors": 5, "negatives": 3, "initial_deviation": 0.3, "neighbours": 0, "trends": ()}

WAYS = "learn learn learn observe put put hide remove forget many diverge train narrow reload ask ask"
DONE = st.tuples(st.sampled_from(WAYS.split()), st.integers(0, 2), st.integers(0, 9))


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots are used again soon."""
    monkeypatch.setattr(slot_table, "kept", lambda _: 2)


def check_same(own: Recommender, shards: int, time: float) -> None:
    shared = own._shared
    here, clock = scorer_of(shared.machine, shared.catalogue), own.events
    asked = [own.encode_request(f"u{n}", 1 + 5 * n, time=time, exclude_seen=n > 0) for n in range(3)]
    added = np.linspace(-1, 1, len(shared.catalogue.ids), dtype=np.float32)
    asked.append(asked[0]._replace(n=20, added=added, exclude_seen=True))
    assert shared.scorer.top(asked, clock) == here.top(asked, clock)
    assert own.shards == shards
    for slot in shared.catalogue.live().tolist():
        for one in asked[1:]:
            assert shared.scorer.rank(one, slot, clock) == here.rank(one, slot, clock)
            assert shared.scorer.score(one, slot, clock) == here.score(one, slot, clock)


def act(own: Recommender, what: str, user: str, item: str, time: float) -> Recommender:
    match what:
        case "learn":
            own.learn(Event(user, item, time))
        case "observe":
            own.observe(Event(user, item, time))
        case "many":
            own.learn([Event(user, item, time), Event("u0", "i3", time), Event(user, "i4", time)])
        case "put":
            own.put_item(item, {"genre": [f"g{len(item + user) % 3}", f"g{own.events % 5}"], "price": own.events % 4})
        case "hide":
            own.put_item(item, {"price": 2}, hidden=True)
        case "remove" if own.has_item(item):
            own.remove_item(item)
        case "forget" if own.has_user(user):
            own.forget_user(user)
        case "train":
            own.train([Event(user, item, time)] * 2, epochs=1)
        case "narrow":
            own.change_bounds(Bounds(items=6))
        case "reload":
            return Recommender.from_state(*own.state())
        case "diverge":
            theta = own._shared.machine.parameters.theta
            sane = float(theta.w0[0])
            theta.w0[0] = np.inf
            with pytest.raises(Diverged):
                own.learn(Event(user, item + "!", time))
            theta.w0[0] = sane
    return own


@settings(max_examples=40)
@given(st.lists(DONE, min_size=10, max_size=40), st.integers(1, 3), st.sampled_from([SCHEMA, NO_IDS]))
def test_shards_have_the_bits_of_one_scan(lines: list[tuple[str, int, int]], shards: int, schema: Schema) -> None:
    own = Recommender(schema, bounds=Bounds.none(), **OWN)
    own.scan_in_shards(partial(LocalShards, shards))
    for time, (what, user, item) in enumerate(lines):
        before, own = own, act(own, what, f"u{user}", f"i{item}", float(time))
        if own is not before:
            own.scan_in_shards(partial(LocalShards, shards))
        if what == "ask" or user:  # or else more happens before anybody asks
            check_same(own, shards, float(time))
    check_same(own, shards, float(len(lines)))


def records(lines: list[tuple[str, int, int]]) -> Iterator[Record | None]:
    """Lines of a log; None where learners merge."""
    live = set[str]()
    for time, (what, user, number) in enumerate(lines):
        item = f"i{number}"
        if what in ("learn", "observe", "many", "train"):
            live.add(item)
            yield Interaction(f"u{user}", item, float(time))
        elif what in ("put", "hide"):
            live.add(item)
            yield ItemPut(item, {"genre": [f"g{time % 3}"]})
        elif what == "remove" and item in live:
            live.remove(item)
            yield ItemRemoved(item)
        else:
            yield None
    yield None


@settings(max_examples=15)
@given(st.lists(DONE, max_size=40), st.integers(1, 3))
def test_a_front_that_takes_over_what_others_learned(lines: list[tuple[str, int, int]], shards: int) -> None:
    own: Any = Recommender(SCHEMA, bounds=Bounds(items=8), **OWN)
    own.follow_learners(2)
    own.scan_in_shards(partial(LocalShards, shards))
    learners = LocalLearners(own.state(), 2)
    for position, record in enumerate(records(lines), 1):
        if record is None:
            own.adopt(learners.merge_for_front()())
            gone = own.let_go()
            given = [Evicted(tuple(gone.users), tuple(gone.items), tuple(gone.values))] if any(gone) else []
            check_same(own, shards, float(position))
        else:
            given = [record]
            match record:
                case Interaction():
                    try:
                        own.observe(record.event(), position=position)
                    except InvalidInput:
                        given = []
                case ItemPut():
                    own.put_items([(record.id, record.attributes)])
                case ItemRemoved() if own.has_item(record.id):
                    own.remove_item(record.id)
                case _:
                    given = []
        if given:
            learners.take(Lines.of([(position, one) for one in given]))
            learners.learn(len(given))
