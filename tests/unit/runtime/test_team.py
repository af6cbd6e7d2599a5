"""One who answers, and several who learn for it."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs
from several import SCHEMA, lines, recommender

from coldstream import Bounds, Categories, Category, Feedback, Id, InvalidInput, Recommender, Schema
from coldstream.cluster.exchange import owner
from coldstream.cluster.learners import LocalLearners
from coldstream.cluster.team import HIRE_HERE, team_of
from coldstream.errors import StoreUnavailable
from coldstream.runtime import records
from coldstream.runtime.learner import Learner
from coldstream.runtime.live_evaluation import LiveEvaluation
from coldstream.runtime.records import (
    Interaction,
    ItemPut,
    ItemRemoved,
    LogHeader,
    Merged,
    Record,
    RuleChanged,
    UserForgotten,
    UserMerged,
    UserPut,
    ValuesReleased,
)
from coldstream.runtime.snapshots import Snapshots
from coldstream.runtime.team import Hiring
from coldstream.snapshots.increments import State
from coldstream.storage.sqlite.store import SqliteStore
from conftest import bits
from patience import PATIENCE


def hiring(begin: Callable[[State, int], LocalLearners] | None) -> Hiring:
    """Learners that `begin` makes, or in this process where they are several."""
    return Hiring(None if begin is None else team_of(begin), HIRE_HERE)


def learner(state: State | None = None, hire: Callable[[State, int], LocalLearners] | None = LocalLearners) -> Learner:
    own = recommender() if state is None else Recommender.from_state(*state)
    made = Learner(SCHEMA, own, LiveEvaluation(), 0)
    made.hiring = hiring(hire)
    return made


def merging(log: list[tuple[int, Record]], learners: int, every: int) -> list[tuple[int, Record]]:
    """The same log with merges."""
    found: list[Record] = [Merged(learners)]
    for number, (_, record) in enumerate(log, 1):
        found.append(record)
        if number % every == 0:
            found.append(Merged(learners))
    return list(enumerate([*found, Merged(learners)], 1))


def test_one_learner_elsewhere_leads_to_the_bits_of_a_single_process() -> None:
    log = merging(lines(150), 1, 40)
    elsewhere, alone = learner(), learner(hire=None)
    elsewhere.apply_all(log)
    alone.apply_all(log)
    assert elsewhere.team is not None
    assert alone.team is None
    assert bits(elsewhere.recommender) == bits(alone.recommender)


def test_what_an_event_says_is_known_at_once_and_what_it_teaches_after_the_merge() -> None:
    log = merging(lines(100), 2, 1000)
    front = learner()
    front.apply_all(log[:-1])
    before = front.recommender.state()[1]["model.w"].copy()
    assert front.unmerged == 100
    assert front.recommender.events == 100
    last = next(record for _, record in reversed(log) if isinstance(record, Interaction))
    assert last.item not in [one.item for one in front.recommender.recommend(last.user, 50)]
    front.apply_all(log[-1:])
    assert front.unmerged == 0
    assert (front.recommender.state()[1]["model.w"] != before).any()


@pytest.mark.parametrize("hire", [LocalLearners, None])
def test_whoever_begins_again_at_a_merge_comes_to_the_same_bits(hire) -> None:
    log = merging(lines(240), 3, 50)
    undisturbed = learner()
    undisturbed.apply_all(log)
    middle = [at for at, (_, record) in enumerate(log) if isinstance(record, Merged)][2] + 1
    first = learner()
    first.apply_all(log[:middle])
    again = learner(first.recommender.state(), hire)
    again.learners = 3
    again.apply_all(log[middle:])
    assert bits(again.recommender) == bits(undisturbed.recommender)
    assert undisturbed.recommender.events == 240


def test_lines_one_by_one_and_together_lead_to_the_same_bits() -> None:
    log = merging(lines(120), 2, 30)
    together, single = learner(), learner()
    together.apply_all(log)
    for position, record in log:
        single.apply(position, record)
    assert bits(together.recommender) == bits(single.recommender)


def test_a_session_is_folded_into_a_user_of_another_learner() -> None:
    log = merging(lines(160), 3, 40)
    log[100:100] = [(0, UserMerged("u1", "u2"))]
    log = [(position, record) for position, (_, record) in enumerate(log, 1)]
    assert owner("u1", 3) != owner("u2", 3)
    front, again, single = learner(), learner(hire=None), recommender()
    front.apply_all(log)
    again.apply_all(log)
    assert bits(front.recommender) == bits(again.recommender)
    for position, record in log:
        match record:
            case UserPut():
                single.put_user(record.id, record.attributes)
            case ItemPut():
                single.put_items([(record.id, record.attributes)])
            case UserMerged():
                single.merge_user(record.id, record.into)
            case Interaction():
                single.learn(record.event(), position=position)
    assert front.team is not None
    own = front.team._learners.partitions[owner("u2", 3)].recommender
    for one in (front.recommender, own):  # pasts are those of a single process, wherever they are kept
        assert {item.item for item in one.recommend("u2", 50)} == {item.item for item in single.recommend("u2", 50)}
        assert one.engine.users.of("u2").recent == single.engine.users.of("u2").recent


@pytest.mark.parametrize("learners", [1, 3])
def test_kinds_count_for_several_learners_as_for_one(learners: int) -> None:
    schema = replace(SCHEMA, feedback=(Feedback("view", 0.2), Feedback("dislike", -1.0)))
    kinds = [None, "view", "dislike"]
    log: list[tuple[int, Record]] = [
        (position, structs.replace(record, feedback=kinds[position % 3]) if isinstance(record, Interaction) else record)
        for position, record in lines(150)
    ]
    found = []
    for hire in (LocalLearners, None):
        own = Learner(schema, Recommender(schema, seed=5, factors=8, negatives=5), LiveEvaluation(), 0)
        own.hiring = hiring(hire)
        own.apply_all(merging(log, learners, 30))
        found.append(own)
    assert bits(found[0].recommender) == bits(found[1].recommender)
    single = Recommender(schema, seed=5, factors=8, negatives=5)
    alone = Learner(schema, single, LiveEvaluation(), 0)
    alone.apply_all(merging(log, 1, 30))
    counted = [name for name in single.state()[1] if name.startswith("catalogue.") and "column" not in name]
    for name in counted:
        assert (found[0].recommender.state()[1][name] == single.state()[1][name]).all(), name


def churning(learners: int) -> tuple[list[tuple[int, Record]], int]:
    """A log in which things go, and others come that take what these have left; and where a merge is in between."""
    rng, found = np.random.default_rng(3), [record for _, record in merging(lines(200, items=140), learners, 50)]
    found += [ItemRemoved(f"i{number}") for number in range(100) if ItemPut in kinds_of(found, f"i{number}")]
    found += [UserForgotten(f"u{number}") for number in (1, 2, 3)]
    found.append(Merged(learners))
    middle = len(found)
    for number in range(90):
        genres = [f"g{one}" for one in sorted(rng.choice(40, 3, replace=False).tolist())]
        found.append(ItemPut(f"new{number}", {"genre": genres}))
        found.append(Interaction(f"u{rng.integers(12)}", f"new{rng.integers(number + 1)}", 2_000_000.0 + number))
    found += [Interaction(f"u{rng.integers(12)}", f"new{rng.integers(90)}", 3_000_000.0 + number) for number in range(60)]
    return list(enumerate([*found, Merged(learners)], 1)), middle


def kinds_of(records: list[Record], item: str) -> set[type]:
    """What was said of an item."""
    return {type(record) for record in records if getattr(record, "id", None) == item}


@pytest.mark.parametrize("learners", [1, 3])
def test_whoever_begins_again_after_things_went_comes_to_the_same_bits(learners: int) -> None:
    log, middle = churning(learners)
    undisturbed, first = learner(), learner()
    undisturbed.apply_all(log)
    first.apply_all(log[:middle])
    again = learner(first.recommender.state())
    again.learners = learners
    again.recommender.engine.follow_learners(learners)
    again.apply_all(log[middle:])
    assert bits(again.recommender) == bits(undisturbed.recommender)
    orders = [undisturbed.recommender.engine.shared.catalogue.live().tolist()]
    assert undisturbed.team is not None
    for partition in undisturbed.team._learners.partitions:
        orders.append(partition.recommender.engine.shared.catalogue.live().tolist())
    assert all(order == orders[0] for order in orders)
    assert orders[0] != sorted(orders[0])


BOUNDED: list[tuple[Bounds, Schema]] = [
    (Bounds(users=6), SCHEMA),
    (Bounds(items=7), SCHEMA),
    (Bounds(expire_users=40), SCHEMA),
    (Bounds(users=7, items=8, expire_users=64), SCHEMA),
    (Bounds(), replace(SCHEMA, context=[Category("device", most=2, expire=30)], item=[Id(), Categories("genre", most=2)])),
    (Bounds(memory="1 MiB"), SCHEMA),
]


def crowded(bounds: Bounds) -> list[tuple[int, Record]]:
    """Lines of as many as a bound is too narrow for."""
    return lines(450, users=600, items=600) if bounds.memory else lines(180, users=14, items=14)


def bounded(bounds: Bounds, schema: Schema, hire: Callable[[State, int], LocalLearners] | None) -> Learner:
    own = Learner(schema, Recommender(schema, seed=5, bounds=bounds, factors=8, negatives=5), LiveEvaluation(), 0)
    own.hiring = hiring(hire)
    return own


def known(one: Recommender) -> set[tuple[str, str]]:
    """All features that have a column."""
    vocabulary = one.engine.shared.encoder.vocabulary
    return {owner for column in range(len(vocabulary)) if (owner := vocabulary.owner_or_none(column)) is not None}


@pytest.mark.parametrize(("bounds", "schema"), BOUNDED)
def test_what_has_to_go_goes_everywhere_at_the_merge(bounds: Bounds, schema: Schema) -> None:
    log = merging(crowded(bounds), 3, 20)
    front = bounded(bounds, schema, LocalLearners)
    for position, record in log:
        front.apply(position, record)
        if not isinstance(record, Merged) or front.team is None:
            continue
        size, one = front.recommender.size, front.recommender
        assert size.users <= (bounds.users or 999)
        assert size.items <= (bounds.items or 999)
        front.team._flush()
        parts = [partition.recommender for partition in front.team._learners.partitions]
        assert sorted(user for part in parts for user in part.users()) == sorted(one.users())
        shared = {name for name in known(one) if name[0] != "user.id"}
        for part in parts:
            assert sorted(part.items()) == sorted(one.items())
            own = {name for name in known(part) if name[0] != "user.id"}
            assert own <= shared
            assert {name for name in own if name[0].startswith("item.")} == {
                name for name in shared if name[0].startswith("item.")
            }
    assert front.recommender.memory.gone
    here = bounded(bounds, schema, None)
    here.apply_all(log)
    assert bits(here.recommender) == bits(front.recommender)


@pytest.mark.parametrize(("bounds", "schema"), BOUNDED[:-1])
def test_what_goes_is_what_goes_in_a_single_process(bounds: Bounds, schema: Schema) -> None:
    """Where learners merge behind every line, so that what has to go goes at the same moments."""
    log = merging(lines(150), 3, 1)
    several, single = bounded(bounds, schema, LocalLearners), bounded(bounds, schema, None)
    several.apply_all(log)
    single.apply_all([(position, record) for position, record in log if not isinstance(record, Merged)])
    assert known(several.recommender) == known(single.recommender)
    assert list(several.recommender.users()) == list(single.recommender.users())
    assert list(several.recommender.items()) == list(single.recommender.items())
    assert several.recommender.memory.gone == single.recommender.memory.gone != {}


@pytest.mark.parametrize(("bounds", "schema"), BOUNDED)
def test_whoever_begins_again_within_bounds_comes_to_the_same_bits(bounds: Bounds, schema: Schema) -> None:
    log = merging(crowded(bounds), 3, 20)
    middle = [at for at, (_, record) in enumerate(log) if isinstance(record, Merged)][4] + 1
    undisturbed, first = bounded(bounds, schema, LocalLearners), bounded(bounds, schema, LocalLearners)
    undisturbed.apply_all(log)
    first.apply_all(log[:middle])
    again = Learner(schema, Recommender.from_state(*first.recommender.state()), LiveEvaluation(), 0)
    again.hiring = hiring(None)
    again.learners = 3
    again.recommender.engine.follow_learners(3)
    again.apply_all(log[middle:])
    assert bits(again.recommender) == bits(undisturbed.recommender)


def test_a_log_of_several_learners_says_where_only_one_can_learn() -> None:
    alone = Learner(SCHEMA, recommender(), LiveEvaluation(), 0)
    with pytest.raises(InvalidInput, match="behind line 1 the log has 2 learners, and only one can learn here"):
        alone.apply_all(merging(lines(5), 2, 40))
    assert alone.position == 1


def test_another_rule_is_nothing_that_learners_in_other_processes_are_told() -> None:
    front = learner()
    log = merging(lines(40), 2, 20)
    front.apply_all(log)
    front.apply_all([(log[-1][0] + 1, RuleChanged(front.rule)), (log[-1][0] + 2, Merged(2))])
    assert front.rule_since == log[-1][0] + 1


def test_every_kind_is_one_that_learners_can_apply_or_are_not_told() -> None:
    told_otherwise = {LogHeader, Interaction}  # a log has one header, before anybody learns; events are learned
    front: Any = None
    for kind in set(records._kinds) - told_otherwise:
        if kind.change is Record.change:
            assert kind.for_team(cast(Any, None), front) == [], kind


def test_another_number_of_learners_goes_on_from_the_merge() -> None:
    log = lines(160)
    front = learner(hire=None)
    front.apply_all(merging(log[:80], 2, 40))
    more = [(position + 1000, record) for position, record in merging(log[80:], 4, 40)]
    front.apply_all(more)
    assert (front.learners, front.recommender.events) == (4, 160)


def test_what_goes_goes_everywhere() -> None:
    log = merging(lines(120), 2, 30)
    front = learner()
    front.apply_all(log)
    vocabulary = front.recommender.engine.shared.encoder.vocabulary
    device = vocabulary.find(vocabulary.field("context.device") or 0, "d1")
    assert device is not None
    leaving: list[Record] = [ItemRemoved("i2"), UserForgotten("u3"), ValuesReleased((device,)), Merged(2)]
    front.apply_all([(position, record) for position, record in enumerate(leaving, log[-1][0] + 1)])
    assert front.team is not None
    for partition in front.team._learners.partitions:
        own, known = partition.recommender, partition.recommender.engine.shared.encoder.vocabulary
        assert not own.has_item("i2")
        assert not own.has_user("u3")
        assert known.find(known.field("context.device"), "d1") is None


def test_a_snapshot_waits_for_the_merge() -> None:
    front = learner()
    log = merging(lines(30), 2, 1000)
    front.apply_all(log[:-1])

    async def waits() -> bool:
        waiting = asyncio.create_task(front.settled())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert front.is_waited_for
        front.apply(*log[-1])
        await asyncio.wait_for(waiting, PATIENCE)
        return front.is_waited_for

    assert not asyncio.run(waits())


def test_a_snapshot_does_not_wait_for_ever(tmp_path: Path) -> None:
    front = learner()
    front.apply_all(merging(lines(30), 2, 1000)[:-1])

    async def taken() -> None:
        with closing(SqliteStore(tmp_path)) as store:
            await Snapshots(store, asyncio.to_thread, tmp_path).take(front, longest=0.05)

    with pytest.raises(StoreUnavailable, match="have not merged in time"):
        asyncio.run(taken())
