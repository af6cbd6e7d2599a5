"""Shards of a catalogue: what they are told, what they answer, and what happens when they are lost."""

import pickle
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from coldstream import Again, Categories, Event, Follows, Id, InvalidInput, Number, Recommender, Schema, Together, Trend
from coldstream.cli import main
from coldstream.engines.ray.shards import Actor
from coldstream.scoring import sharded_scan
from coldstream.scoring.merged_best import merged_best
from coldstream.scoring.questions import Part, Question
from coldstream.scoring.ranking import CLOSEST_TO_1, HIGHEST, RankRule
from coldstream.scoring.requests import EncodedRequest
from coldstream.scoring.scorer import Scorer, scorer_of
from coldstream.scoring.shard import Best, Shard, ShardShape, ShardsLost, Update
from coldstream.scoring.shards import LocalShards, Shards
from coldstream.storage.sqlite import SqliteStore
from conftest import bits

ITEMS = 90
SCHEMA = Schema(item=[Id(), Categories("genre"), Number("price", scale=10)])


def shop(schema: Schema = SCHEMA, preset: str = "default", items: int = ITEMS, **given: Any) -> Recommender:
    own = Recommender(schema, preset, seed=1, factors=6, **given)
    own.put_items((f"i{n}", {"genre": [f"g{n % 4}"], "price": n % 7}) for n in range(items))
    rng = np.random.default_rng(3)
    for _ in range(120):
        own.learn(Event(f"u{rng.integers(6)}", f"i{rng.integers(items // 2)}"))
    return own


def answers(scorer: Scorer, requests: Sequence[EncodedRequest], slots: Sequence[int], clock: int) -> list[Any]:
    top: list[Any] = [scorer.top(requests, clock), *(scorer.top([one], clock) for one in requests)]
    places = [scorer.rank(one, slot, clock) for one in requests for slot in slots]
    return [*top, *places, *(scorer.score(one, slot, clock) for one in requests for slot in slots)]


def check_same(own: Recommender, shards: int) -> None:
    """Every path has the bits of one scan, and the shards were asked."""
    shared = own._shared
    mask = np.zeros(len(shared.catalogue.ids), np.uint8)
    mask[::3] = 1
    asked = [own.encode_request(user, n, exclude_seen=seen) for user, n, seen in (("u0", 7, True), ("nobody", 200, False))]
    asked += [
        asked[0]._replace(excluded=mask),
        asked[1]._replace(n=5, added=np.linspace(-1, 1, len(mask), dtype=np.float32)),
    ]
    slots = shared.catalogue.live().tolist()[::11]
    here = scorer_of(shared.machine, shared.catalogue)
    found = answers(shared.scorer, asked, slots, own.events)
    assert own.shards == shards
    assert found == answers(here, asked, slots, own.events)


@pytest.mark.parametrize("shards", [1, 2, 3, ITEMS + 10])
def test_shards_have_the_bits_of_one_scan_and_change_nothing(shards: int) -> None:
    own = shop(trends=(20, 100))
    own.scan_in_shards(partial(LocalShards, shards))
    before = bits(own)
    check_same(own, shards)
    assert bits(own) == before
    own.scan_in_shards(None)
    assert own.shards == 0
    assert own._shared.scorer.top([own.encode_request("u0", 3)], own.events)


@pytest.mark.parametrize(
    "schema",
    [
        Schema(item=[Categories("genre"), Number("price")]),
        Schema(item=[Id(), Categories("genre"), Number("price"), Follows(), Together(), Again()], exclude_seen=False),
        Schema(item=[Id(), Number("price"), Categories("genre"), Trend("hot", 5, linear=False)]),
    ],
    ids=["no ids", "cross features", "interacting trends"],
)
def test_whatever_items_bring_is_scanned_in_shards(schema: Schema) -> None:
    own = shop(schema)
    own.scan_in_shards(partial(LocalShards, 3))
    check_same(own, 3)


def test_a_catalogue_of_more_than_a_block_and_one_of_none() -> None:
    own = shop(items=3000)
    own.scan_in_shards(partial(LocalShards, 2))
    check_same(own, 2)
    nothing = Recommender(SCHEMA)
    nothing.scan_in_shards(partial(LocalShards, 2))
    assert nothing.recommend("u0") == []
    nothing.put_item("first")
    assert [one.item for one in nothing.recommend("u0")] == ["first"]


# What shards are told


def told(own: Recommender) -> int:
    """Of how many items shards were told since they were asked last."""
    updates = own._sharded._updates  # type: ignore[union-attr]
    assert updates is not None
    before = updates.rows
    check_same(own, 3)
    return updates.rows - before


def test_an_update_carries_what_has_changed_and_nothing_else() -> None:
    own = shop(negatives=5)
    own.scan_in_shards(partial(LocalShards, 3))
    check_same(own, 3)
    assert own._sharded._updates.rows == ITEMS  # type: ignore[union-attr]
    assert told(own) == 0
    own.put_item("i5", {"genre": ["other"], "price": 3})
    assert told(own) == 1
    own.remove_item("i7")
    own.put_item("new")
    assert told(own) == 2
    own.observe(Event("u1", "i3"))
    assert told(own) == 1
    own.learn(Event("u1", "i3"))
    assert 1 <= told(own) <= 6  # the item and its negatives
    own.learn([Event("u1", f"i{n}") for n in (8, 9)])
    assert 2 <= told(own) <= ITEMS  # what many learn can be undone, and then all may have changed
    own.put_user("u9")
    assert told(own) == 0
    own.put_item("brief")
    own.remove_item("brief")
    assert told(own) == 0  # no shard has ever known it
    own.train([Event("u1", "i2")] * 3, epochs=1)
    assert told(own) == ITEMS


def test_who_takes_over_what_learners_learned_tells_shards_of_no_more() -> None:
    from coldstream.runtime.learners import LocalLearners
    from coldstream.runtime.lines import Lines
    from coldstream.runtime.records import Interaction

    front = shop(negatives=3, trends=(20,))
    front.follow_learners(2)
    front.scan_in_shards(partial(LocalShards, 3))
    learners = LocalLearners(front.state(), 2)
    check_same(front, 3)
    for first in (0, 4):
        events = [Interaction(f"u{n}", f"i{7 * n}", 0.0) for n in range(first, first + 4)]
        lines = list(enumerate(events, front.position + 1))
        learners.take(Lines.of(lines))
        learners.learn(len(events))
        front.replay_observed([(position, event.event()) for position, event in lines])
        assert told(front) == 4
        before = bits(front)
        front.adopt(learners.merge_for_front()())
        assert 1 < told(front) <= 4 * 4
        assert bits(front) != before


def test_updates_are_numbered_and_none_is_passed_over() -> None:
    shape = ShardShape(2, np.zeros(0, np.float32), 0.0, np.zeros(3, np.uint8))
    shard, nothing, no_floats = Shard(0, 1, shape), np.zeros(0, np.int32), np.zeros(0, np.float32)
    fields, longs = np.zeros((0, 0), np.int32), np.zeros(0, np.int64)
    numbers = np.zeros((0, 0), np.float32)
    update = Update(
        nothing, nothing, no_floats, np.zeros((0, 2), np.float32), fields, numbers, numbers, longs, no_floats, nothing, longs
    )
    assert shard.update(1, update) == 1
    with pytest.raises(ShardsLost, match="shard 0 knows 1 updates and was sent number 3"):
        shard.update(3, update)
    question: Any = None
    with pytest.raises(ShardsLost, match="shard 0 knows 1 updates and should know 2"):
        shard.best(2, question, question)


class Sent(LocalShards):
    """Shards to whom all goes as bytes, and who get arrays that are read-only, as in the memory of a cluster."""

    def __init__(self, count: int, shape: ShardShape) -> None:
        super().__init__(count, shape)
        self.shards: Any = [_Receiver(Actor(number, count, _sent(shape))) for number in range(count)]


class _Receiver:
    """An actor in this process."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return lambda *args: _sent(getattr(self._actor, name)(*map(_sent, args)))


def _sent(message: Any) -> Any:
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    received = pickle.loads(text, buffers=[bytes(one) for one in buffers])
    assert type(received) is type(message)
    return received


def test_messages_have_the_same_bits_on_the_other_side() -> None:
    own = shop(Schema(item=[Id(), Categories("genre"), Number("price"), Follows(), Together()]))
    own.scan_in_shards(partial(Sent, 3))
    check_same(own, 3)
    actor = own._sharded._shards.shards[0]._actor  # type: ignore[union-attr]
    assert actor._shard._shape.rate.flags.writeable  # or else everything would be compiled once more
    own.learn(Event("u0", "i9"))
    check_same(own, 3)
    update = own._sharded._updates  # type: ignore[union-attr]
    assert update is not None
    own.put_item("i1", {"genre": ["a"]})
    update.look()
    sizes = [one.size for one in update.taken(10, own._sharded._vectors.now())]  # type: ignore[union-attr]
    assert sum(sizes) < 200  # one item, of six factors
    assert sizes.count(0) == 2


# Where they are lost


class Unreliable(LocalShards):
    """Shards that are lost after so many questions, and take so many looks to take anything up."""

    def __init__(self, count: int, shape: ShardShape, questions: int = 1, looks: int = 0) -> None:
        super().__init__(count, shape)
        self.questions, self.looks, self.closed = questions, looks, False

    def behind(self) -> int | None:
        self.looks -= 1
        return None if self.looks > 10 else 0 if self.looks < 0 else sharded_scan.MOST_BEHIND

    def best(self, known: int, question: Question, parts: Sequence[Part]) -> Sequence[Best]:
        self.questions -= 1
        if self.questions < 0:
            raise ShardsLost("a shard was lost")
        return super().best(known, question, parts)

    def close(self) -> None:
        self.closed = True


def test_where_shards_are_lost_one_process_scans_and_others_are_filled_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own, begun = shop(), list[Unreliable]()

    def begin(shape: ShardShape) -> Shards:
        begun.append(Unreliable(2, shape))
        return begun[-1]

    now = 1000.0
    monkeypatch.setattr(sharded_scan, "monotonic", lambda: now)
    expected = own.recommend("u0")
    own.scan_in_shards(begin)
    assert own.recommend("u0") == expected
    assert own.shards == 2
    assert own.recommend("u0") == expected  # they are lost now
    assert (own.shards, len(begun), begun[0].closed) == (0, 1, True)
    assert "a shard was lost" in str(caplog.records[-1].__dict__["reason"])
    own.put_item("i5", {"genre": ["other"]})
    own.learn(Event("u0", "i9"))
    assert own.recommend("u0")
    assert (own.shards, len(begun)) == (0, 1)
    now += sharded_scan.AGAIN_AFTER
    begun_anew = own.recommend("u0")
    assert (own.shards, len(begun)) == (2, 2)
    assert sum(map(len, begun[-1].shards)) == ITEMS
    own.scan_in_shards(None)
    assert begun_anew == own.recommend("u0")
    assert begun[1].closed


def test_as_long_as_shards_do_not_know_everything_one_process_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    own = shop()
    monkeypatch.setattr(sharded_scan, "MOST_TOLD", 40)
    expected = own.recommend("u0")
    own.scan_in_shards(partial(Unreliable, 2, questions=100, looks=13))
    found = []
    for _ in range(15):
        assert own.recommend("u0") == expected
        found.append(own.shards)
    assert found == sorted(found)  # they do not begin at once, do not take up anything at once, and then they do
    assert set(found) == {0, 2}
    own.tell_shards()
    assert own.shards == 2


def test_pairs_of_another_kind_are_refused() -> None:
    own = Recommender(SCHEMA, "paper")
    with pytest.raises(InvalidInput, match=r"pairs must be 'across' where shards scan.* got 'j>=?i'; leave shards out, or"):
        own.scan_in_shards(partial(LocalShards, 2))
    assert own.recommend("u0") == []


def test_a_log_is_not_begun_with_shards_that_cannot_scan_it(tmp_path: Any) -> None:
    from coldstream.config import Hyperparameters
    from coldstream.runtime.recovery import RequestedModel, recovered

    requested = RequestedModel(SCHEMA, Hyperparameters(pairs="j>i"), 0, begin_shards=partial(LocalShards, 2))
    store = SqliteStore(tmp_path / "data")
    with pytest.raises(InvalidInput, match="pairs must be 'across'"):
        recovered(store, requested)
    assert store.last() == 0
    learner = recovered(store, requested._replace(hyperparameters=Hyperparameters()))
    learner.recommender.put_item("a")
    assert [one.item for one in learner.recommender.recommend("u0")] == ["a"]
    assert learner.recommender.shards == 2
    learner.abandon()
    assert learner.recommender.recommend("u0")
    assert learner.recommender.shards == 0
    store.close()


def test_shards_without_an_engine_are_one_clear_error(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--data", str(tmp_path / "data"), "--shards", "2"]) == 2
    assert capsys.readouterr().err.endswith("shards are on an engine's cluster, got 2; give --engine ray with it\n")
    assert not (tmp_path / "data").exists()


def test_training_that_fails_leaves_shards_that_know_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    own = shop()
    own.scan_in_shards(partial(LocalShards, 2))
    check_same(own, 2)
    monkeypatch.setattr("coldstream.recommender.settle", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        own.train([Event("u0", "i3")] * 5, epochs=1)
    check_same(own, 2)


# What they answer, merged


def best_of(*found: tuple[int, float, int]) -> Best:
    slot, score, arrival = zip(*found, strict=True) if found else ((), (), ())
    offset = np.array([0, len(found)], np.int32)
    return Best(offset, np.array(slot, np.int32), np.array(score, np.float64), np.array(arrival, np.int64))


@pytest.mark.parametrize("code", [HIGHEST, CLOSEST_TO_1])
def test_of_equals_the_first_to_come_is_the_best(code: int) -> None:
    parts = [best_of((3, 1.0, 7), (4, 0.5, 1)), best_of((1, 1.0, 2)), best_of(), best_of((2, 1.0, 3))]
    assert [slot for slot, _ in merged_best(parts, 0, 3, RankRule(code, 0.0))] == [1, 2, 3]


def test_scores_that_differ_only_without_the_requests_own_part_are_told_apart() -> None:
    parts = [best_of((1, 1.0, 1)), best_of((2, 1.0 + 2**-20, 2))]
    assert merged_best(parts, 0, 2, RankRule(HIGHEST, 2.0**60)) == [(2, 2.0**60), (1, 2.0**60)]
