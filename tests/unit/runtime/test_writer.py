"""The one writer: durable before it is learned, learned before it is answered, whatever the store does."""

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coldstream import Category, Event, Id, InvalidInput, Recommender, Schema, UnknownId
from coldstream.config import Hyperparameters
from coldstream.errors import StoreDamaged, StoreUnavailable
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, Record, UserPut
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.verification import verified
from coldstream.runtime.writing import upkeep
from coldstream.runtime.writing import writer as module
from coldstream.runtime.writing.checks import Refused
from coldstream.runtime.writing.write_queue import Overloaded
from coldstream.runtime.writing.writer import Stopping, Writer
from coldstream.storage import stores
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.storage.store import LogLine
from conftest import bits
from patience import PATIENCE, until

SMALL = Hyperparameters(factors=3, negatives=3)
SCHEMA = Schema(user=[Id(), Category("country")], item=[Id(), Category("genre")])
NEVER = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=0)


class Faulty(SqliteStore):
    """A store whose next appends fail: before they are durable, or after it, when nobody hears of it any more."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.before = self.after = self.saving = 0
        self.appended: list[int] = []
        self.gate: threading.Event | None = None
        self.waits = threading.Event()
        """Set while, and after, an append waits at the gate."""

    def append(self, lines: Sequence[LogLine], after: int, /) -> list[int | None]:
        if self.gate is not None:
            self.waits.set()
            assert self.gate.wait(PATIENCE)
        if self.before:
            self.before -= 1
            raise StoreUnavailable("no room")
        positions = super().append(lines, after)
        self.appended.append(len(lines))
        if self.after:
            self.after -= 1
            raise StoreUnavailable("the line went dead")
        return positions

    def save(self, position: int, file: Path, /) -> Any:
        if self.saving:
            self.saving -= 1
            raise StoreUnavailable("no room for a snapshot")
        return super().save(position, file)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Faulty]:
    with closing(Faulty(tmp_path / "data")) as opened:
        yield opened


def during(store: Faulty, work: Callable[[Writer], Awaitable[None]], limits: WriterLimits = NEVER) -> Writer:
    """Let a writer do some work, and stop it."""

    async def live() -> Writer:
        writer = Writer(store, recovered(store, RequestedModel(SCHEMA, SMALL, 0)), limits, store.folder)
        await writer.start(lambda: None)
        try:
            await work(writer)
        finally:
            await writer.stop()
        return writer

    return asyncio.run(live())


def again(folder: Path) -> Learner:
    """What a restart knows, from the log alone."""
    with closing(SqliteStore(folder)) as store:
        for saved in store.snapshots():
            store.discard(saved)
        return recovered(store, RequestedModel(None, None, None))


def events(n: int) -> list[Record]:
    return [Interaction(f"u{t % 5}", f"i{t * t % 7}", 60.0 * t) for t in range(n)]


def test_what_is_answered_is_durable_and_known(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        assert await writer.write([ItemPut("i1", {"genre": "jazz"}), UserPut("u", {"country": "NL"})]) == [2, 3]
        assert await writer.write([Interaction("u", "i1", 60.0, {}, "e1")]) == [4]
        assert writer.learner.recommender.engine.has_past("u")
        assert [entry.position for entry in store.read(0)] == [1, 2, 3, 4]

    during(store, work)


def test_the_same_event_id_is_learned_once(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        same = Interaction("u", "i", None, {}, "e1")
        assert await writer.write([same, same]) == [2, None]
        assert await writer.write([same, Interaction("u", "j")]) == [None, 3]
        assert writer.learner.recommender.events == 2

    during(store, work)


def test_a_log_leads_to_the_same_bits_as_the_calls_themselves(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {"genre": "jazz"}), UserPut("u1", {"country": "NL"})])
        await writer.write(events(40))
        await writer.write([ItemRemoved("i2")])
        await writer.write(events(9))

    learner = during(store, work).learner
    plain = Recommender(SCHEMA, SMALL)
    plain.put_item("i1", {"genre": "jazz"})
    plain.put_user("u1", {"country": "NL"})
    for position, record in enumerate((*events(40), None, *events(9)), 4):  # after the header, the item and the user
        if isinstance(record, Interaction):
            plain.learn(Event(record.user, record.item, record.time), position=position)
        else:
            plain.remove_item("i2")
    assert bits(learner.recommender) == bits(plain)
    assert bits(again(store.folder).recommender) == bits(plain)


def test_concurrent_calls_share_commits_and_are_learned_in_order(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        store.gate = threading.Event()
        calls = [asyncio.create_task(writer.write([record])) for record in events(50)]
        await until(store.waits.is_set)
        store.gate.set()
        positions = [position for call in calls for position in await call]
        assert positions == list(range(2, 52))

    during(store, work)
    # The first line of the log, whoever came first, and all those who came meanwhile.
    assert len(store.appended) <= 3
    assert sum(store.appended) == 51


def test_a_refused_record_takes_its_call_with_it_and_no_other(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        store.gate = threading.Event()
        first = asyncio.create_task(writer.write([Interaction("a", "i")]))
        await until(store.waits.is_set)
        bad = asyncio.create_task(writer.write([Interaction("b", "i"), ItemPut("i", {"colour": "red"})]))
        good = asyncio.create_task(writer.write([Interaction("c", "i")]))
        store.gate.set()
        with pytest.raises(Refused, match="unknown field 'colour'") as refused:
            await bad
        assert refused.value.index == 1
        assert await first == [2]
        assert await good == [3]
        assert not writer.learner.recommender.has_user("b")

    during(store, work)


def test_a_context_field_that_is_coming_binds_those_behind_it(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        sad = Interaction("u", "i", None, {"mood": "sad"})
        with pytest.raises(Refused, match="mood must be") as refused:
            await writer.write([sad, Interaction("u", "i", None, {"mood": ["a", "list"]})])
        assert refused.value.index == 1
        assert await writer.write([sad]) == [2]
        with pytest.raises(Refused, match="mood must be"):
            await writer.write([Interaction("u", "i", None, {"mood": ["a", "list"]})])

    during(store, work)


def test_a_field_of_an_event_that_the_log_has_already_does_not_come(store: Faulty) -> None:
    """The event is not written again, so what relies on its field would be refused for ever, at every start."""

    async def work(writer: Writer) -> None:
        await writer.write([Interaction("u", "i", None, {}, "e1")])
        known = Interaction("u", "i", None, {"z": "s"}, "e1")
        with pytest.raises(Refused, match="undeclared field 'z' must be a string") as refused:
            await writer.write([known, Interaction("u", "i", None, {"z": 5})])
        assert refused.value.index == 1
        new = Interaction("u", "i", None, {"y": "s"}, "e2")
        with pytest.raises(Refused, match="undeclared field 'y' must be a string"):
            await writer.write([new, Interaction("u", "i", None, {"y": 5})])
        with pytest.raises(Refused, match="y must be"):
            await writer.write([new, Interaction("u", "i", None, {"y": ["a", "list"]})])
        assert await writer.write([known, Interaction("u", "i", None, {"z": "t"})]) == [None, 3]
        assert await writer.write([Interaction("u", "i", None, {"x": "s"}), Interaction("u", "i", None, {"x": 5})]) == [4, 5]

    learner = during(store, work).learner
    assert bits(again(store.folder).recommender) == bits(learner.recommender)


def test_what_is_not_there_cannot_go_and_goes_once(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i", {})])
        outcomes = await asyncio.gather(
            *(writer.write([ItemRemoved("i")]) for _ in range(3)), writer.write([ItemPut("j", {})]), return_exceptions=True
        )
        refusals = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        assert len(refusals) == 2
        assert all(isinstance(refusal.error, UnknownId) for refusal in refusals)
        with pytest.raises(Refused):
            await writer.forget("nobody")

    during(store, work)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failing_store_refuses_and_nothing_is_learned_twice_or_lost(store: Faulty, when: str) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([Interaction("a", "i", 0.0, {}, "e1")])
        setattr(store, when, 1)
        with pytest.raises(StoreUnavailable):
            await writer.write([Interaction("b", "i", 0.0, {}, "e2")])
        assert not writer.store_works
        # Whatever became of it, sending it again makes it known exactly once.
        again = await writer.write([Interaction("b", "i", 0.0, {}, "e2"), Interaction("c", "i", 0.0, {}, "e3")])
        assert again == ([3, 4] if when == "before" else [None, 4])
        assert writer.store_works
        assert writer.learner.recommender.events == 3

    learner = during(store, work).learner
    assert bits(again(store.folder).recommender) == bits(learner.recommender)


def test_a_store_that_works_again_is_noticed_without_being_asked(store: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIDY_EVERY", 0.01)

    async def work(writer: Writer) -> None:
        store.after = 1
        with pytest.raises(StoreUnavailable):
            await writer.write([Interaction("a", "i")])
        while not writer.store_works:
            await asyncio.sleep(0.01)
        assert writer.learner.recommender.engine.has_past("a")

    during(store, work)


def test_a_store_that_can_only_be_read_is_not_said_to_work(
    store: Faulty, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "TIDY_EVERY", 0.01)
    tried = 0

    def touch() -> None:
        nonlocal tried
        tried += 1
        if tried < 5:
            raise StoreUnavailable("no room")
        SqliteStore.touch(store)

    async def work(writer: Writer) -> None:
        store.before = 1
        store.touch = touch  # type: ignore[method-assign]
        with caplog.at_level("INFO"), pytest.raises(StoreUnavailable):
            await writer.write([Interaction("a", "i")])
        while tried < 4:
            assert not writer.store_works
            await asyncio.sleep(0.001)
        assert "works again" not in caplog.text
        with caplog.at_level("INFO"):
            while not writer.store_works:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
        assert tried == 5
        assert caplog.text.count("works again") == 1

    during(store, work)


@pytest.mark.usefixtures("soon")
def test_an_erasure_that_fails_again_and_again_does_not_have_the_store_flap(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([UserPut("ann", {}), *events(5)])
        store.saving = 5
        await writer.forget("ann")
        seen = set()
        while store.saving:
            if store.saving < 5:
                seen.add(writer.store_works)
            await asyncio.sleep(0.001)
        assert seen == {False}

    during(store, work)


def test_more_than_can_wait_is_refused(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        store.gate = threading.Event()
        first = asyncio.create_task(writer.write(events(2)))
        await until(store.waits.is_set)
        second = asyncio.create_task(writer.write(events(8)))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="8 records wait"):
            await writer.write(events(3))
        store.gate.set()
        await first
        await second

    during(store, work, WriterLimits(pending=10, snapshot_lines=0, snapshot_seconds=0))


def test_snapshots_are_taken_while_learning(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        for record in events(60):
            await writer.write([record])
            await asyncio.sleep(0.005)

    during(store, work, WriterLimits(snapshot_lines=10, snapshot_seconds=0))
    with closing(stores.inspected(f"sqlite:{store.folder}")) as view:
        kept = view.snapshots()
        assert len(kept) > 1
        assert kept[0].position == view.last() == 61
        verdict = verified(view, False, lambda _: None)
    assert (verdict.base, verdict.last, verdict.different) == (1, 61, [])
    assert sorted(verdict.same, reverse=True) == kept


def test_a_snapshot_that_fails_stops_nobody_and_is_tried_again(store: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldstream.runtime.snapshots.RETRY_AFTER", 0.0)

    async def work(writer: Writer) -> None:
        store.saving = 1
        for record in events(40):
            await writer.write([record])
        end = time.monotonic() + PATIENCE
        while writer.snapshots.newest is None:
            assert time.monotonic() < end, "none was taken"
            await writer.write([UserPut("u1", {})])  # whoever writes finds out what is due
            await asyncio.sleep(0.01)
        assert store.saving == 0

    during(store, work, WriterLimits(snapshot_lines=10, snapshot_seconds=0))


def test_a_stop_takes_a_last_snapshot_and_takes_nothing_more(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write(events(5))

    writer = during(store, work)
    with pytest.raises(Stopping):
        asyncio.run(writer.write(events(1)))
    with closing(stores.inspected(f"sqlite:{store.folder}")) as view:
        assert [saved.position for saved in view.snapshots()] == [6]


def test_what_waits_when_a_stop_comes_is_still_done(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        calls = [asyncio.create_task(writer.write([record])) for record in events(30)]
        await asyncio.sleep(0)
        await writer.stop()
        assert [position for call in calls for position in await call] == list(range(2, 32))

    async def live() -> None:
        writer = Writer(store, recovered(store, RequestedModel(SCHEMA, SMALL, 0)), NEVER, store.folder)
        await writer.start(lambda: None)
        await work(writer)

    asyncio.run(live())


def test_a_bug_in_learning_ends_the_writer_and_says_so(store: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    async def live() -> Writer:
        writer = Writer(store, recovered(store, RequestedModel(SCHEMA, SMALL, 0)), NEVER, store.folder)
        await writer.start(lambda: told.append(True))
        monkeypatch.setattr(writer.learner, "apply", lambda *_: 1 / 0)
        with pytest.raises(Stopping, match="has failed"):
            await writer.write(events(1))
        await writer.stop()
        return writer

    writer = asyncio.run(live())
    assert isinstance(writer.failed, ZeroDivisionError)
    assert told == [True]
    with closing(stores.inspected(f"sqlite:{store.folder}")) as view:
        # It is in the log, and a restart will learn it; of what is known now, no snapshot is to be trusted.
        assert view.last() == 2
        assert view.snapshots() == []


def test_everybody_who_waits_hears_of_the_end(store: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> list[list[int | None] | BaseException]:
        writer = Writer(store, recovered(store, RequestedModel(SCHEMA, SMALL, 0)), NEVER, store.folder)
        await writer.start(lambda: None)
        await writer.write([ItemPut("i1", {})])
        monkeypatch.setattr(writer.learner, "apply", lambda *_: 1 / 0)
        store.gate = threading.Event()
        calls: list[Record] = [Interaction("a", "i1"), ItemRemoved("i1"), Interaction("b", "i1"), ItemPut("i2", {})]
        waiting = [asyncio.create_task(writer.write([record])) for record in calls]
        await until(store.waits.is_set)  # the first is being written, and the others cannot share its commit
        store.gate.set()
        answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE)
        await writer.stop()
        return answers

    answers = asyncio.run(live())
    assert [type(answer) for answer in answers] == [Stopping] * 4


def test_a_writer_with_nothing_to_do_takes_no_snapshots(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write(events(5))
        assert (await writer.snapshot()).number == 1
        for _ in range(3):
            writer.snapshots.begin_if_due(writer.learner, 0, 1e-9)
            await asyncio.sleep(0)

    during(store, work)
    with closing(stores.inspected(f"sqlite:{store.folder}")) as view:
        assert [saved.number for saved in view.snapshots()] == [1]


def test_a_snapshot_is_due_after_a_time_in_which_something_was_learned(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.snapshot()
        await writer.write(events(5))
        writer.snapshots.begin_if_due(writer.learner, 0, 3600)
        assert writer.snapshots.newest is not None
        assert writer.snapshots.newest.position == 1
        writer.snapshots.begin_if_due(writer.learner, 0, 1e-9)
        newest = writer.snapshots
        await until(lambda: newest.newest is not None and newest.newest.position == 6)

    during(store, work)


@pytest.mark.parametrize("notices", ["a snapshot that is asked for", "a snapshot that is due", "the last snapshot"])
def test_a_log_that_is_replaced_under_a_writer_ends_it(tmp_path: Path, notices: str) -> None:
    store, told = Faulty(tmp_path / "data"), asyncio.Event()

    async def live() -> Writer:
        writer = Writer(store, recovered(store, RequestedModel(SCHEMA, SMALL, 0)), NEVER, store.folder)
        await writer.start(told.set)
        await writer.write(events(3))
        (store.folder / "log.sqlite").rename(store.folder / "moved")
        shutil.copy(store.folder / "moved", store.folder / "log.sqlite")
        if notices == "a snapshot that is asked for":
            with pytest.raises(Stopping, match="has failed"):
                await writer.snapshot()
        elif notices == "a snapshot that is due":
            writer.snapshots.begin_if_due(writer.learner, 1, 0)
        if notices != "the last snapshot":
            await asyncio.wait_for(told.wait(), PATIENCE)
        await writer.stop()
        return writer

    failed = asyncio.run(live()).failed
    assert isinstance(failed, StoreDamaged)
    assert "was deleted or replaced" in str(failed)


# Forgetting


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIDY_EVERY", 0.01)
    monkeypatch.setattr(upkeep, "RETRY_AFTER", 0.01)


async def erased(writer: Writer) -> None:
    while writer.erasures.pending:
        await asyncio.sleep(0.01)


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("soon")
def test_a_person_who_is_forgotten_leaves_no_trace_in_the_folder(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([UserPut("Ann-Marie", {"country": "Liechtenstein"}), *events(10)])
        await writer.write([Interaction("Ann-Marie", "i1", 0.0, {"via": "postcard"}, "ann-event")])
        await writer.snapshot()
        assert b"Ann-Marie" in everything_in(store.folder)
        assert await writer.forget("Ann-Marie") == (14, {"Ann-Marie"})
        assert not writer.learner.recommender.has_user("Ann-Marie")
        await erased(writer)
        await writer.write(events(3))

    learner = during(store, work).learner
    left = everything_in(store.folder)
    for trace in (b"Ann-Marie", b"ann-event", b"Liechtenstein", b"postcard"):
        assert trace not in left
    with closing(stores.inspected(f"sqlite:{store.folder}")) as view:
        assert view.base() == 15  # behind the line that releases what only she had
        assert all(saved.position >= 15 for saved in view.snapshots())
        assert verified(view, False, lambda _: None).different == []
    with closing(SqliteStore(store.folder)) as reopened:
        assert bits(recovered(reopened, RequestedModel(None, None, None)).recommender) == bits(learner.recommender)


@pytest.mark.usefixtures("soon")
def test_an_erasure_that_fails_is_made_up_for(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([UserPut("ann", {}), *events(5)])
        store.saving = 1
        await writer.forget("ann")
        assert not writer.learner.recommender.has_user("ann")
        await erased(writer)
        assert store.saving == 0
        assert store.forgotten() == {}

    during(store, work)


@pytest.mark.usefixtures("soon")
def test_an_erasure_that_a_crash_cut_short_is_made_up_for_at_the_next_start(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([UserPut("ann", {}), *events(5)])
        store.saving = 1_000
        await writer.forget("ann")

    during(store, work)

    async def rest(writer: Writer) -> None:
        await erased(writer)

    with closing(Faulty(store.folder)) as reopened:
        assert list(reopened.forgotten()) == ["ann"]
        during(reopened, rest)
    assert b'"ann"' not in everything_in(store.folder)


@pytest.mark.usefixtures("soon")
def test_a_person_whose_deletion_was_committed_unheard_is_erased_too(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([UserPut("Ann-Marie", {}), *events(5)])
        store.after = 1
        with pytest.raises(StoreUnavailable):
            await writer.forget("Ann-Marie")
        await writer.write(events(1))
        assert not writer.learner.recommender.has_user("Ann-Marie")
        await erased(writer)

    during(store, work)
    assert b"Ann-Marie" not in everything_in(store.folder)


@pytest.mark.usefixtures("soon")
def test_people_forgotten_together_share_two_snapshots(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write(events(20))
        store.gate = threading.Event()
        blocker = asyncio.create_task(writer.write([Interaction("x", "i")]))
        await until(store.waits.is_set)
        leaving = [asyncio.create_task(writer.forget(f"u{n}")) for n in range(5)]
        await asyncio.sleep(0)
        store.gate.set()
        await blocker
        assert [own.position for own in await asyncio.gather(*leaving)] == [23, 24, 25, 26, 27]
        await erased(writer)
        assert [saved.number for saved in store.snapshots()] == [2, 1]

    during(store, work)


@pytest.mark.usefixtures("soon")
def test_a_person_who_comes_back_is_somebody_new(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([UserPut("ann", {"country": "NL"}), Interaction("ann", "i", 0.0, {}, "e1")])
        await writer.forget("ann")
        await erased(writer)
        assert await writer.write([Interaction("ann", "i", 0.0, {}, "e1")]) == [6]
        assert writer.learner.recommender.user("ann") == {}

    during(store, work)


def test_the_service_evaluates_itself_as_far_as_time_allows(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([ItemPut(f"i{n}", {}) for n in range(7)])
        await writer.write(events(60))

    all_tested = during(store, work, WriterLimits(evaluation_share=1.0, snapshot_lines=0, snapshot_seconds=0)).learner
    assert all_tested.evaluation.metrics().tested == 60
    document = json.dumps(all_tested.evaluation.metrics()._asdict())
    assert "popularity" in document


def test_the_first_error_names_the_record(store: Faulty) -> None:
    async def work(writer: Writer) -> None:
        with pytest.raises(Refused) as refused:
            await writer.write([UserPut("u", {"country": 3.5})])
        assert isinstance(refused.value.error, InvalidInput)
        assert refused.value.error.field == "attributes.country"

    during(store, work)
