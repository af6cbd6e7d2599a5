"""Several learners of one log: what they have in common, and what one alone is."""

import numpy as np
import pytest
from several import SCHEMA, lines, recommender

from coldstream import Category, Feedback, Id, Recommender, Schema
from coldstream.cluster.exchange import Exchange, adopt, owner
from coldstream.cluster.learners import LocalLearners
from coldstream.cluster.lines import Lines, batches
from coldstream.errors import Interrupted, InvalidInput
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, UserForgotten, UserPut
from conftest import bits

HELD = ("w", "V", "Gw", "GV", "Sw", "SV", "touched_at")


def alone(log) -> Recommender:
    """What a single process makes of a log."""
    single = recommender()
    for position, record in log:
        match record:
            case UserPut():
                single.put_user(record.id, record.attributes)
            case ItemPut():
                single.put_item(record.id, record.attributes)
            case ItemRemoved():
                single.remove_item(record.id)
            case Interaction():
                single.learn(record.event(), position=position)
    return single


def learned(log, count: int, every: int = 20, batch: int = 60) -> LocalLearners:
    """The same by several learners, who merge after so many lines; batches are of any size."""
    learners = LocalLearners(recommender().state(), count)
    since = 0
    for first in range(0, len(log), batch):
        for some in batches(log[first : first + batch]):
            learners.take(Lines.of(some))
            for upto in range(1, len(some) + 1):
                since += 1
                if since % every == 0:
                    learners.learn(upto)
                    learners.merge()
            learners.learn(len(some))
    learners.merge()
    return learners


def shared_rows(one: Recommender) -> dict[tuple[str, str], bytes]:
    """What a recommender has of all features but users' ids, by name."""
    shared = one.engine.shared
    vocabulary, rows = shared.encoder.vocabulary, shared.machine.parameters.rows
    owners = ((column, vocabulary.owner_or_none(column)) for column in range(len(vocabulary)))
    return {
        name: b"".join(getattr(rows, held)[column].tobytes() for held in HELD)
        for column, name in owners
        if name is not None and name[0] != "user.id"
    }


def test_one_learner_has_the_bits_of_a_single_process() -> None:
    log = lines(150)
    assert bits(learned(log, 1).partitions[0].recommender) == bits(alone(log))


@pytest.mark.parametrize("count", [2, 5])
def test_catalogues_are_those_of_a_single_process_and_what_is_shared_is_the_same_everywhere(count) -> None:
    log = lines(200)
    log.insert(120, (log[119][0], ItemRemoved("i3")))
    learners, single = learned(log, count), alone(log)
    own = ("catalogue.id_column", "catalogue.combination_column")  # by other numbers
    counted = {name: array for name, array in single.state()[1].items() if name.startswith("catalogue.") and name not in own}
    expected = {name: array.tobytes() for name, array in counted.items()}
    first = shared_rows(learners.partitions[0].recommender)
    for partition in learners.partitions:
        arrays = partition.recommender.state()[1]
        assert {name: arrays[name].tobytes() for name in expected} == expected
        rows = shared_rows(partition.recommender)
        common = first.keys() & rows.keys()
        assert len(common) > 30
        assert {name: rows[name] for name in common} == {name: first[name] for name in common}
        users = partition.recommender.users()
        assert {owner(user, count) for user in users} <= {partition.exchange.learner}
    assert sum(partition.recommender.size.users for partition in learners.partitions) == single.size.users
    assert sum(partition.learned for partition in learners.partitions) == 200


@pytest.mark.parametrize("batch", [1, 7, 60])
def test_repeats_count_alike_at_all_learners_and_in_a_single_process(batch: int) -> None:
    rng, kinds = np.random.default_rng(2), ("view", "cart", "purchase", None)
    schema = Schema(item=[Id()], feedback=[Feedback("view", 0.2), Feedback("cart", 0.5), Feedback("purchase", 1)])
    log = [
        (n, Interaction(f"u{rng.integers(4)}", f"i{min(rng.zipf(1.7), 5)}", feedback=kinds[rng.integers(4)]))
        for n in range(1, 301)
    ]
    log.insert(150, (log[149][0], UserForgotten("u1")))
    state = Recommender(schema, seed=5, factors=4, negatives=3).state()
    found = []
    for count in (1, 3):
        learners = LocalLearners(state, count)
        for lines_of_one in batches(log):
            for first in range(0, len(lines_of_one), batch):
                own = lines_of_one[first : first + batch]
                learners.take(Lines.of(own))
                learners.learn(len(own))
        found += [partition.recommender.state()[1] for partition in learners.partitions]
    for other in found[1:]:
        for name in ("catalogue.choices", "catalogue.level", "catalogue.partner", "catalogue.together", "catalogue.follows"):
            np.testing.assert_array_equal(other[name], found[0][name], err_msg=name)


def test_how_lines_are_batched_makes_no_difference() -> None:
    log = lines(120)
    by_size = [[bits(p.recommender) for p in learned(log, 3, batch=batch).partitions] for batch in (1, 7, 500)]
    assert by_size[0] == by_size[1] == by_size[2]


def test_who_is_tested_before_it_is_learned_learns_the_same() -> None:
    """Others' events count for whoever is tested next, too."""
    log = lines(90)
    chosen = sorted({record.item for _, record in log if isinstance(record, Interaction)})
    log = [*((log[0][0], ItemPut(item, {})) for item in chosen), *log]  # who is tested is known before
    found = []
    for tests in (True, False):
        learners = LocalLearners(recommender().state(), 3)
        learners.take(Lines.of(log))
        for upto in (40, len(log)):
            if tests:
                learners.test(upto, 5)
            else:
                learners.learn(upto)
            learners.merge()
        found.append([bits(partition.recommender) for partition in learners.partitions])
    assert found[0] == found[1]


def test_what_one_learner_alone_has_touched_arrives_as_it_is() -> None:
    log = lines(40)
    learners = LocalLearners(recommender(negatives=0, loss="logistic", trends=(), neighbours=0).state(), 2)
    learners.take(Lines.of(log))
    learners.learn(len(log))
    given = [one.changes() for one in learners.partitions]
    before = [shared_rows(one.recommender) for one in learners.partitions]
    names = [
        {one.recommender.engine.shared.encoder.vocabulary.owner(column) for column in own.column.tolist()}
        for one, own in zip(learners.partitions, given, strict=True)
    ]
    for one in reversed(learners.partitions):
        one.merge(given[::-1])  # in whatever order they come
    after = [shared_rows(one.recommender) for one in learners.partitions]
    assert names[0] - names[1]
    assert names[1] - names[0]
    assert names[0] & names[1]
    for here, there in ((0, 1), (1, 0)):
        for name in names[here] - names[there]:
            assert after[0][name] == after[1][name] == before[here][name]
    for name in names[0] & names[1]:
        assert after[0][name] == after[1][name] != before[0][name]


def test_a_learner_that_touched_nothing_new_sends_nothing() -> None:
    learners = learned(lines(50), 2)
    changes = learners.partitions[0].changes()
    assert (len(changes.column), len(changes.named)) == (0, 0)


def test_names_are_told_once() -> None:
    log = lines(80)
    learners = LocalLearners(recommender().state(), 2)
    told = []
    learners.take(Lines.of(log))
    for upto in (len(log) - 20, len(log)):
        learners.learn(upto)
        changes = [one.changes() for one in learners.partitions]
        told.append([len(own.named) for own in changes])
        for one in learners.partitions:
            one.merge(changes)
    assert told[1][0] < told[0][0] / 4


def test_whoever_does_not_learn_can_take_over_what_was_learned() -> None:
    log = lines(160)
    learners, front = LocalLearners(recommender().state(), 3), recommender()
    learners.take(Lines.of(log))
    learners.learn(len(log))
    for position, record in log:
        match record:
            case UserPut():
                front.put_user(record.id, record.attributes)
            case ItemPut():
                front.put_item(record.id, record.attributes)
            case Interaction():
                front.engine.replay_observed([(position, record.event())])
    before = front.state()[1]["model.V"].copy()
    changes = learners.merge_for_front()()
    adopt(front.engine.shared, changes, front.engine.clock)
    assert (front.state()[1]["model.V"] != before).any()
    for partition in learners.partitions:
        other = partition.recommender
        for user in other.users():
            ours, theirs = front.recommend(user, 5), other.recommend(user, 5)
            assert [one.item for one in ours] == [one.item for one in theirs]
            np.testing.assert_allclose([one.score for one in ours], [one.score for one in theirs], rtol=1e-5)


def test_a_batch_is_taken_once_and_none_is_left_out() -> None:
    learners = learned(lines(30), 2)
    partition = learners.partitions[0]
    before = bits(partition.recommender)
    for number in (partition.number, partition.number + 2):
        with pytest.raises(Interrupted, match="does not follow"):
            partition.take(number, Lines.of(lines(3)))
    assert bits(partition.recommender) == before


def exchange_of(schema: Schema, learners: int) -> Exchange:
    engine = Recommender(schema).engine
    return Exchange(engine.shared, engine.users, 0, learners)


def test_values_that_come_after_some_uses_are_refused_where_each_learner_would_count_its_own() -> None:
    rare = {
        "user": Schema(user=[Category("city", admit_after=2)], item=SCHEMA.item),
        "context": Schema(item=SCHEMA.item, context=[Category("device", admit_after=3)]),
    }
    for side, schema in rare.items():
        with pytest.raises(InvalidInput, match=rf"field '{side}\.\w+' must not have admit_after where several learn"):
            exchange_of(schema, 2)
        exchange_of(schema, 1)


def test_changes_of_somebody_are_missing() -> None:
    partition = learned(lines(30), 2).partitions[0]
    with pytest.raises(InvalidInput, match="2 learners"):
        partition.merge([partition.changes()])
