"""Values that only those who leave had go with them, and every replay agrees."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coldstream import Categories, Category, Id, Number, Recommender, Schema
from coldstream.config import Hyperparameters
from coldstream.errors import StoreUnavailable
from coldstream.runtime.erasure import erasures
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, UserForgotten, UserMerged, UserPut, ValuesReleased, line
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.verification import verified
from coldstream.runtime.writing import upkeep
from coldstream.runtime.writing import writer as module
from coldstream.runtime.writing.writer import Writer
from coldstream.storage import stores
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.storage.store import LogLine, Saved
from conftest import bits

SCHEMA = Schema(
    user=[Id(), Category("country"), Number("age", bins=(18, 65)), Number("height", scale=100)],
    item=[Id(), Category("genre")],
    context=[Category("mail"), Categories("tags")],
)
NEVER = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=0)
ANN = [
    UserPut("ann", {"country": "Liechtenstein", "age": 70, "height": 170}),
    Interaction("ann", "i1", 0.0, {"mail": "ann@example.org", "tags": ["blue", "zither"], "undeclared": "ann's own"}),
]
BOB = [
    UserPut("bob", {"country": "NL", "height": 180}),
    Interaction("bob", "i2", 0.0, {"mail": "bob@example.org", "tags": ["blue", "red"], "undeclared": "everybody's"}),
]
ITEMS = [ItemPut(f"i{n}", {"genre": "zither" if n else "harp"}) for n in range(4)]


class Full(SqliteStore):
    """A store that has no room for snapshots while it is said to be full, and may fall silent after an append."""

    full = silent = False

    def save(self, position: int, file: Path, /) -> Saved:
        if self.full:
            raise StoreUnavailable("no room for a snapshot")
        return super().save(position, file)

    def append(self, lines: Sequence[LogLine], after: int, /) -> list[int | None]:
        positions = super().append(lines, after)
        if self.silent:
            self.silent = False
            raise StoreUnavailable("the line went dead")
        return positions


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIDY_EVERY", 0.01)
    monkeypatch.setattr(upkeep, "RETRY_AFTER", 0.01)


async def forget(writer: Writer, *people: str) -> None:
    """Forget people, and wait until nothing is left of them."""
    await asyncio.gather(*(writer.forget(who) for who in people))
    await erased(writer)


async def erased(writer: Writer) -> None:
    while writer.erasures.pending:
        await asyncio.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(folder: Path) -> Iterator[Full]:
    with closing(Full(folder)) as opened:
        yield opened


def during(store: Full, folder: Path, work: Callable[[Writer], Awaitable[None]]) -> Learner:
    async def live() -> Learner:
        requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0)
        writer = Writer(store, recovered(store, requested), NEVER, folder)
        await writer.start(lambda: None)
        try:
            await work(writer)
        finally:
            await writer.stop()
        return writer.learner

    return asyncio.run(live())


def features(learner: Learner) -> set[str]:
    return set(learner.recommender.inspection.features("", 1000).names)


def vector(recommender: Recommender, country: str) -> list[float]:
    (column,) = recommender.inspection.columns(recommender.inspection.values_of("user", {"country": country}))
    return recommender.engine.shared.machine.parameters.theta.V[column].tolist()


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def recovers_to(folder: Path, learner: Learner) -> bool:
    with closing(SqliteStore(folder)) as reopened:
        found = recovered(reopened, RequestedModel(None, None, None))
        return bits(found.recommender) == bits(learner.recommender)


def test_values_that_only_the_erased_had_are_nowhere_afterwards(store: Full, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])
        await writer.snapshot()
        before = features(writer.learner)
        assert b"ann@example.org" in everything_in(folder)
        await forget(writer, "ann")
        gone = before - features(writer.learner)
        assert gone == {
            "user.id=ann",
            "user.country=Liechtenstein",
            "user.age=2",
            "context.mail=ann@example.org",
            "context.tags=zither",
            "context.undeclared=ann's own",
        }
        await writer.write([Interaction("cy", "i1", 0.0, {"mail": "cy@example.org", "tags": ["lute"]})])

    learner = during(store, folder, work)
    left = everything_in(folder)
    for trace in (b"ann@example.org", b"Liechtenstein", b"ann's own", b'"ann"'):
        assert trace not in left
    assert {"context.tags=blue", "user.country=NL", "item.genre=zither", "user.height"} <= features(learner)
    assert recovers_to(folder, learner)
    with closing(stores.inspected(f"sqlite:{folder}")) as view:
        assert verified(view, False, lambda _: None).different == []


def test_what_stays_keeps_what_was_learned_and_what_comes_again_begins_anew(store: Full, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])
        recommender = writer.learner.recommender
        scores = recommender.predict("bob", "i3", context={"tags": ["red", "blue"]})
        assert recommender.predict(None, "i3", context={"mail": "ann@example.org"}) != recommender.predict(None, "i3")
        await forget(writer, "ann")
        assert recommender.predict("bob", "i3", context={"tags": ["red", "blue"]}) == scores
        assert recommender.predict(None, "i3", context={"mail": "ann@example.org"}) == recommender.predict(None, "i3")
        await writer.write([UserPut("dee", {"country": "Liechtenstein"})])
        fresh = Recommender(SCHEMA, recommender.hyperparameters, recommender.seed)
        fresh.put_user("dee", {"country": "Liechtenstein"})
        assert vector(recommender, "Liechtenstein") == vector(fresh, "Liechtenstein")

    assert recovers_to(folder, during(store, folder, work))


def test_a_value_of_two_goes_with_the_last_of_them_and_leavers_together_share_what_goes(store: Full, folder: Path) -> None:
    shared = {"mail": "the-couple@example.org"}
    people = ("ann", "bob", "cy", "dee")

    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *(Interaction(who, "i1", 0.0, shared) for who in people)])
        await forget(writer, "ann")
        assert "context.mail=the-couple@example.org" in features(writer.learner)
        await forget(writer, *people[1:])
        assert "context.mail=the-couple@example.org" not in features(writer.learner)

    assert recovers_to(folder, during(store, folder, work))
    assert b"the-couple@example.org" not in everything_in(folder)


def test_a_value_that_somebody_once_had_and_changed_stays(store: Full, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, UserPut("bob", {"country": "Liechtenstein"}), UserPut("bob", {"country": "NL"})])
        await forget(writer, "ann")
        assert "user.country=Liechtenstein" in features(writer.learner)  # a line of bob's says it

    during(store, folder, work)


def test_whoever_comes_back_before_the_erasure_keeps_what_they_say_then(store: Full, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])
        store.full = True
        await writer.forget("ann")
        await writer.write([UserPut("ann", {"country": "Liechtenstein"})])
        await writer.forget("bob")
        await asyncio.sleep(0.1)
        assert writer.erasures.pending
        store.full = False
        await erased(writer)
        assert {"user.country=Liechtenstein"} <= features(writer.learner)
        assert "context.mail=bob@example.org" not in features(writer.learner)

    learner = during(store, folder, work)
    assert recovers_to(folder, learner)
    assert b"bob@example.org" not in everything_in(folder)
    assert b"Liechtenstein" in everything_in(folder)


@pytest.mark.parametrize("silent", [False, True])
def test_a_crash_before_the_erasure_leads_to_the_same_bits(store: Full, folder: Path, silent: bool) -> None:
    """A line says which values go and when, so a replay need not look for them."""

    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])
        store.full, store.silent = True, silent
        if silent:
            with pytest.raises(StoreUnavailable):
                await writer.forget("ann")
        else:
            await writer.forget("ann")
        while "context.mail=ann@example.org" in features(writer.learner):
            await asyncio.sleep(0.01)
        await writer.write([Interaction("cy", "i1", 0.0, {"mail": "cy@example.org"})])

    learner = during(store, folder, work)
    assert "context.mail=ann@example.org" not in features(learner)
    with closing(SqliteStore(folder)) as reopened:
        assert list(reopened.forgotten()) == ["ann"]
        assert reopened.snapshots() == []
        assert bits(recovered(reopened, RequestedModel(None, None, None)).recommender) == bits(learner.recommender)


def test_what_earlier_releases_left_behind_goes_with_the_next_who_leaves(store: Full, folder: Path) -> None:
    async def before(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])

    during(store, folder, before)
    with closing(SqliteStore(folder)) as reopened:
        reopened.append([line(UserForgotten("ann"))], reopened.last())  # as it was: without what goes along

    async def after(writer: Writer) -> None:
        assert "context.mail=ann@example.org" in features(writer.learner)
        await forget(writer, "bob")
        assert not [name for name in features(writer.learner) if "example.org" in name]

    with closing(Full(folder)) as again:
        during(again, folder, after)
    assert b"example.org" not in everything_in(folder)


def test_lines_about_people_who_leave_repeat_no_value() -> None:
    assert line(ValuesReleased((3, 17))) == LogLine(b'{"kind":"values-released","columns":[3,17]}')
    written: Any = line(UserForgotten("ann", time=5.0))
    assert written.body == b'{"kind":"user-forgotten","id":"ann","time":5.0}'


def test_a_line_of_an_older_release_says_itself_which_values_go(store: Full, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])

    learner = during(store, folder, work)
    inspection = learner.recommender.inspection
    columns = inspection.columns(inspection.values_of("context", {"mail": "ann@example.org"}))
    learner.apply(learner.position + 1, UserForgotten("ann", tuple(columns)))
    assert "context.mail=ann@example.org" not in features(learner)


# In the background


def test_the_log_forgets_last_who_is_to_be_erased_from_what_is_beside_it(
    store: Full, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed in between finds out from the log who has to go. The log itself does not wait for it."""
    monkeypatch.setattr(erasures, "SHORTEST_RETRY", 0.01)
    asked, lines, failures = list[set[str]](), list[str](), list[AssertionError]()

    async def beside(users: Collection[str]) -> None:
        try:
            assert set(users) == {"ann", "visitor"}
            assert "ann" in store.forgotten()
        except AssertionError as error:  # it would be tried for ever
            failures.append(error)
            return
        asked.append(set(users))
        lines.append("".join(entry.body.decode() for entry in store.read(0)))
        if len(asked) < 4:
            raise StoreUnavailable("somebody else reads it") if len(asked) < 3 else ZeroDivisionError

    async def live() -> Learner:
        requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0)
        writer = Writer(store, recovered(store, requested), NEVER, folder, erase_beside=beside)
        await writer.start(lambda: None)
        await writer.write([*ITEMS, *ANN, *BOB, Interaction("visitor", "i3", 0.0)])
        await writer.write([UserMerged("visitor", "ann")])
        await forget(writer, "ann")
        assert [saved.number for saved in store.snapshots()] == [2, 1], "no others are taken for a second try"
        assert store.forgotten() == {}
        await writer.stop()
        return writer.learner

    learner = asyncio.run(live())
    assert failures == []
    assert len(asked) == 4
    assert "Liechtenstein" in lines[0], "it is told before the log forgets"
    assert not any("Liechtenstein" in text or '"user":"visitor"' in text for text in lines[1:]), "the log does not wait"
    assert b'"ann"' not in everything_in(folder)
    assert recovers_to(folder, learner)


def test_who_waits_only_for_what_is_beside_the_log_is_found_again_after_a_restart(store: Full, folder: Path) -> None:
    tries = 0

    async def fails(_: Collection[str]) -> None:
        nonlocal tries
        tries += 1
        raise StoreUnavailable("somebody else reads it")

    async def live(own: Full, beside: Callable[[Collection[str]], Awaitable[None]], there: bool) -> None:
        requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0)
        writer = Writer(own, recovered(own, requested), NEVER, folder, erase_beside=beside)
        await writer.start(lambda: None)
        if there:
            assert list(writer.erasures.pending) == ["ann"]
            await asyncio.wait_for(erased(writer), 60)
            assert own.forgotten() == {}
        else:
            await writer.write([*ITEMS, *ANN, *BOB])
            await writer.forget("ann")
            while b"ann@example.org" in everything_in(folder):
                await asyncio.sleep(0.01)
            assert list(writer.erasures.pending) == list(own.forgotten()) == ["ann"]
        await writer.stop()

    asyncio.run(asyncio.wait_for(live(store, fails, False), 60))
    assert tries == 1, "it is not tried again at once"
    store.close()
    found = list[set[str]]()

    async def works(users: Collection[str]) -> None:
        found.append(set(users))

    with closing(Full(folder)) as again:
        asyncio.run(live(again, works, True))
    assert found == [{"ann"}]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_was_ahead_delays_no_erasure(
    store: Full, folder: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    ahead, now = 1e9 + 30 * 86_400.0, 1e9
    clock = [ahead]
    monkeypatch.setattr(module, "time", lambda: clock[0])
    requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0)

    async def live(own: Full, wait: float, first: bool, last: bool) -> None:
        limits = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=wait)
        writer = Writer(own, recovered(own, requested), limits, folder)
        await writer.start(lambda: None)
        if first:
            await writer.write([*ITEMS, *ANN, *BOB])
            await writer.forget("ann")
            clock[0] = now
        assert list(writer.erasures.pending) == ["ann"]
        assert writer.erasures.oldest_seconds >= (0 if first else wait)
        if last:
            await asyncio.wait_for(erased(writer), 60)
        await writer.stop()

    asyncio.run(live(store, 1e6 if restarted else 0.05, True, not restarted))
    if restarted:
        store.close()
        with closing(Full(folder)) as again:
            asyncio.run(live(again, 3600.0, False, True))


def test_a_clock_that_is_set_ahead_brings_no_erasure_forward(
    store: Full, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1e9]
    monkeypatch.setattr(module, "time", lambda: clock[0])
    requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0)

    async def live() -> None:
        limits = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=3600.0)
        writer = Writer(store, recovered(store, requested), limits, folder)
        await writer.start(lambda: None)
        await writer.write([*ITEMS, *ANN, *BOB])
        await writer.forget("ann")
        clock[0] += 86_400.0
        assert 0 <= writer.erasures.oldest_seconds < 3600
        await writer.erasures.look()
        assert 0 <= writer.erasures.oldest_seconds < 3600
        await writer.stop()

    asyncio.run(live())


def test_a_stop_while_people_are_erased_is_no_failure(store: Full, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither where the next thing would be a line of the log, nor where it would be what is beside it."""

    async def live() -> None:
        requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0)
        reached, stopping = asyncio.Event(), asyncio.Event()

        async def beside(_: Collection[str]) -> None:
            reached.set()
            await stopping.wait()

        writer = Writer(store, recovered(store, requested), NEVER, folder, erase_beside=beside)
        await writer.start(lambda: None)
        await writer.write([*ITEMS, *ANN, *BOB])
        await writer.forget("ann")
        await reached.wait()
        stop = asyncio.ensure_future(writer.stop())
        while not writer._stopping:
            await asyncio.sleep(0)
        stopping.set()
        await stop
        assert list(writer.erasures.pending) == ["ann"]

    asyncio.run(live())
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_sessions_are_erased_from_what_is_beside_the_log_too(store: Full, folder: Path) -> None:
    """Memory may not know any more whose a session was; the log does."""
    asked = list[set[str]]()

    async def beside(users: Collection[str]) -> None:
        asked.append(set(users))

    async def live() -> None:
        requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0)
        writer = Writer(store, recovered(store, requested), NEVER, folder, erase_beside=beside)
        await writer.start(lambda: None)
        visits = [Interaction(who, "i1", 0.0) for who in ("visit-1", "visit-2", "visit-3")]
        await writer.write([*ITEMS, *ANN, *BOB, *visits])
        for session, user in (("visit-1", "visit-2"), ("visit-2", "ann"), ("visit-3", "bob")):
            await writer.write([UserMerged(session, user)])
        writer.learner.recommender.engine.users.sessions.clear()  # as if ann had had to go, and come back
        await forget(writer, "ann")
        await writer.stop()

    asyncio.run(live())
    assert asked == [{"ann", "visit-1", "visit-2"}]


def test_a_deletion_is_answered_before_the_log_is_read(store: Full, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])
        reads, read = list[int](), store.read
        store.read = lambda *given: (reads.append(given[0]), read(*given))[1]  # type: ignore[method-assign]
        position = (await writer.forget("ann")).position
        assert (reads, store.snapshots()) == ([], [])
        assert not writer.learner.recommender.has_user("ann")
        assert writer.erasures.pending["ann"].position == position == store.last()
        assert 0 <= writer.erasures.oldest_seconds < 600
        await erased(writer)
        assert (len(store.snapshots()), writer.erasures.oldest_seconds) == (2, 0)
        assert reads

    during(store, folder, work)


def test_those_who_wait_are_erased_together_when_the_first_has_waited_long_enough(
    store: Full, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1e9]
    for clock in (module, erasures):
        monkeypatch.setattr(clock, "monotonic", lambda: now[0])

    async def live() -> None:
        limits = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=600)
        requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0)
        writer = Writer(store, recovered(store, requested), limits, folder)
        await writer.start(lambda: None)
        await writer.write([*ITEMS, *ANN, *BOB])
        await writer.forget("ann")
        now[0] += 599
        await writer.forget("bob")
        assert len(writer.erasures.pending) == 2
        now[0] += 1
        await erased(writer)
        assert [saved.number for saved in store.snapshots()] == [2, 1]
        await writer.stop()

    asyncio.run(live())


def test_what_is_said_while_the_log_is_read_counts(store: Full, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldstream.runtime.erasure.log_reading.PAGE", 3)
    monkeypatch.setattr("coldstream.runtime.erasure.erasures.NEAR", 2)

    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB, *(Interaction(f"u{n}", "i1", 0.0) for n in range(30))])
        pages, said = writer._upkeep._reading.pages_backwards, False

        async def slowly(until: int, after: int) -> Any:
            nonlocal said
            async for lines in pages(until, after):
                if lines[0][0] > 20 and not said:
                    said = True
                    await writer.write([UserPut("cy", {"country": "Liechtenstein"})])
                yield lines

        writer._upkeep._reading.pages_backwards = slowly  # type: ignore[method-assign]
        await forget(writer, "ann")
        assert said
        assert "user.country=Liechtenstein" in features(writer.learner)
        assert "context.mail=ann@example.org" not in features(writer.learner)

    assert recovers_to(folder, during(store, folder, work))


def test_a_column_that_went_to_another_while_the_log_was_read_is_not_released(
    store: Full, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only the one who leaves had may go for want of room meanwhile, and an item come to its column."""
    monkeypatch.setattr("coldstream.runtime.erasure.log_reading.PAGE", 3)
    monkeypatch.setattr("coldstream.runtime.erasure.erasures.NEAR", 2)
    requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0, {"undeclared_values": 3})

    async def live() -> Learner:
        writer = Writer(store, recovered(store, requested), NEVER, folder)
        await writer.start(lambda: None)
        await writer.write([*ITEMS, *ANN, *BOB, *(Interaction(f"u{n}", "i1", 0.0) for n in range(30))])
        pages, said = writer._upkeep._reading.pages_backwards, False

        async def slowly(until: int, after: int) -> Any:
            nonlocal said
            async for lines in pages(until, after):
                if lines[0][0] > 20 and not said:
                    said = True
                    await writer.write([Interaction("bob", "i1", 0.0, {"undeclared": f"v{n}"}) for n in range(2)])
                    await writer.write([ItemPut(f"new{n}", {}) for n in range(9)])
                yield lines

        writer._upkeep._reading.pages_backwards = slowly  # type: ignore[method-assign]
        await forget(writer, "ann")
        assert said
        assert "context.undeclared=ann's own" not in features(writer.learner)
        assert {f"item.id=new{n}" for n in range(9)} <= features(writer.learner)
        await writer.stop()
        assert writer.failed is None
        return writer.learner

    assert recovers_to(folder, asyncio.run(live()))


def test_the_writer_goes_on_between_the_steps_of_a_purge(store: Full, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldstream.storage.sqlite.compaction.STEP", 5)

    async def work(writer: Writer) -> None:
        await writer.write(
            [*ITEMS, *ANN, *BOB, *(Interaction("ann", "i1", 0.0, {"mail": "x"}, f"e{n}") for n in range(100))]
        )
        purge, written, asking = store.purge_in_steps, list[int | None](), list[tuple[int, list[str]]]()

        def watched(users: Any, base: int) -> Iterator[None]:
            for step in purge(users, base):
                asking.append((store.last(), list(store.forgotten())))
                yield step

        store.purge_in_steps = watched  # type: ignore[method-assign]
        await writer.forget("ann")
        while writer.erasures.pending:
            written += await writer.write([Interaction("bob", "i3", 0.0)])
        assert len({last for last, _ in asking}) > 5
        assert all(who == ["ann"] for _, who in asking)  # until nothing is left of her in any file
        assert store.forgotten() == {}

    assert recovers_to(folder, during(store, folder, work))
    assert b'"ann"' not in everything_in(folder)


def test_a_stop_leaves_the_rest_to_the_next_start(store: Full, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldstream.runtime.erasure.log_reading.PAGE", 3)
    monkeypatch.setattr("coldstream.runtime.erasure.log_reading.SHARE", 0.001)

    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB, *(Interaction(f"u{n}", "i1", 0.0) for n in range(2000))])
        await writer.forget("ann")
        await asyncio.sleep(0.1)

    monkeypatch.setattr("coldstream.runtime.erasure.erasures.NEAR", 2)
    asked = during(store, folder, work)
    assert "context.mail=ann@example.org" in features(asked)
    monkeypatch.setattr("coldstream.runtime.erasure.log_reading.SHARE", 0.5)
    with closing(Full(folder)) as again:

        async def rest(writer: Writer) -> None:
            assert list(writer.erasures.pending) == ["ann"]
            assert writer.erasures.oldest_seconds < 60
            await erased(writer)

        learner = during(again, folder, rest)
    assert "context.mail=ann@example.org" not in features(learner)
    assert b"ann@example.org" not in everything_in(folder)
