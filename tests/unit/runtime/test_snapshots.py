"""Full snapshots and increments: what is taken when, what is kept, and what a damaged file or a dead process costs."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from coldstream import Category, Id, InvalidSnapshot, Recommender, Schema
from coldstream.config import Hyperparameters
from coldstream.errors import StoreUnavailable
from coldstream.runtime import snapshots
from coldstream.runtime.chain import made_of_chain, read_chain
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, UserPut
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.snapshots import _is_being_written
from coldstream.runtime.verification import verified
from coldstream.runtime.writing.writer import Writer
from coldstream.snapshots import fork
from coldstream.snapshots.fork import Fork
from coldstream.snapshots.increments import State, fingerprint
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.storage.store import Saved
from coldstream.support import memory_tuning
from conftest import bits
from patience import PATIENCE

NEVER = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=0)
SAME = RequestedModel(Schema(user=[Id(), Category("city")], item=[Id()]), Hyperparameters(factors=4, negatives=3), 0)
MANY = [*(ItemPut(f"i{n}", {}) for n in range(300)), *(UserPut(f"u{n}", {"city": f"c{n % 9}"}) for n in range(300))]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "data")) as opened:
        yield opened


def during(store: SqliteStore, folder: Path, work: Callable[[Writer], Awaitable[None]]) -> Learner:
    async def live() -> Learner:
        writer = Writer(store, recovered(store, SAME), NEVER, folder)
        await writer.start(lambda: None)
        await work(writer)
        await writer.snapshots.finish(writer.learner)
        return writer.learner

    return asyncio.run(live())


def event(n: int) -> Interaction:
    return Interaction(f"u{n % 50}", f"i{n * n % 60}", 60.0 * n)


def taken(count: int) -> Callable[[Writer], Awaitable[None]]:
    """So many snapshots, each a few events after the one before."""

    async def work(writer: Writer) -> None:
        await writer.write(MANY if writer.learner.position < 600 else [])
        for n in range(count):
            await writer.write([event(5 * n + m) for m in range(5)])
            await writer.snapshot()

    return work


def increments(store: SqliteStore) -> list[int]:
    """Of every snapshot, the oldest first, how many increments it is made of."""
    return [read_chain(store, saved)[1].increments for saved in sorted(store.snapshots())]


def damaged(store: SqliteStore, saved: Saved) -> None:
    with store.opened(saved) as path:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


@pytest.fixture(autouse=True)
def never_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states here are small, and an increment has its own overhead."""
    monkeypatch.setattr(snapshots, "MOST_BYTES", 99.0)


def test_full_and_increments_lead_to_the_state_that_is_known(store: SqliteStore, tmp_path: Path) -> None:
    learner = during(store, tmp_path, taken(4))
    assert increments(store) == [0, 1, 2, 3]
    sizes = [path.stat().st_size for path in sorted((tmp_path / "data" / "snapshots").iterdir())]
    assert max(sizes[1:]) < sizes[0] / 2
    again = recovered(store, SAME)
    assert again.position == learner.position
    assert bits(again.recommender) == bits(learner.recommender)
    verdict = verified(store, False, lambda _: None)
    assert (len(verdict.same), verdict.different) == (4, [])


def test_increments_go_on_after_a_restart(store: SqliteStore, tmp_path: Path) -> None:
    during(store, tmp_path, taken(2))
    learner = during(store, tmp_path, taken(2))
    assert increments(store) == [0, 1, 2, 3]
    assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)


def test_two_full_ones_are_kept_and_what_builds_on_them(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_INCREMENTS", 2)
    during(store, tmp_path, taken(5))
    assert increments(store) == [0, 1, 2, 0, 1]
    during(store, tmp_path, taken(3))
    assert [saved.number for saved in sorted(store.snapshots())] == [4, 5, 6, 7, 8]
    assert increments(store) == [0, 1, 2, 0, 1]
    assert verified(store, False, lambda _: None).different == []


def test_a_full_one_is_due_when_increments_have_grown(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_BYTES", 0.0)
    during(store, tmp_path, taken(4))
    assert increments(store) == [0, 1, 0, 1]


@pytest.mark.parametrize("which", range(5))
def test_whichever_file_is_damaged_the_bits_are_the_same(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    """Of two chains, each a full one and increments, any file can be damaged: what is before it is used, and the log."""
    monkeypatch.setattr(snapshots, "MOST_INCREMENTS", 2)
    learner = during(store, tmp_path, taken(5))
    everything = sorted(store.snapshots())
    damaged(store, everything[which])
    again = recovered(store, SAME)
    assert bits(again.recommender) == bits(learner.recommender)
    lost = {0: [], 1: [], 2: [], 3: everything[3:], 4: everything[4:]}[which]
    assert again.passed_over == lost[::-1]
    different = [saved for saved, _ in verified(store, False, lambda _: None).different]
    assert different == everything[which : 3 if which < 3 else 5]
    # The useless go with the next one that is taken, and it builds on what was loaded.
    learner = during(store, tmp_path, taken(1))
    assert not set(store.snapshots()) & set(lost)
    assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)


def test_an_increment_whose_base_is_gone_is_passed_over(store: SqliteStore, tmp_path: Path) -> None:
    learner = during(store, tmp_path, taken(3))
    first, second, third = sorted(store.snapshots())
    store.discard(second)
    again = recovered(store, SAME)
    assert again.passed_over == [third]
    assert bits(again.recommender) == bits(learner.recommender)
    ((_, reason),) = verified(store, False, lambda _: None).different
    assert f"builds on one of line {second.position}, which is not there" in reason
    assert first in store.snapshots()


def test_erasing_a_person_replaces_every_file(store: SqliteStore, tmp_path: Path) -> None:
    async def work(writer: Writer) -> None:
        await taken(2)(writer)
        await writer.write([UserPut("ann", {"city": "Vaduz"}), Interaction("ann", "i1", 9.0)])
        await writer.snapshot()
        await writer.forget("ann")
        while writer.erasures.pending:
            await asyncio.sleep(0.01)
        await writer.write([event(99)])
        await writer.snapshot()

    learner = during(store, tmp_path, work)
    assert increments(store) == [0, 0, 1]
    assert b"Vaduz" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)


def test_nothing_is_left_behind(store: SqliteStore, tmp_path: Path) -> None:
    during(store, tmp_path, taken(2))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def children() -> set[int]:
    """Of this process; it may have others than those of a test, such as a server of PostgreSQL."""
    own = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in own}


def test_a_child_that_is_killed_leaves_nothing_and_is_tried_again(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(writer: Writer) -> None:
        await writer.write(MANY)
        with monkeypatch.context() as slow:
            slow.setattr(Learner, "view", lambda _: signal.pause())
            others = children()
            taking = asyncio.create_task(writer.snapshot())
            while not children() - others:
                await asyncio.sleep(0.01)
            for pid in children() - others:
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(StoreUnavailable, match="ended with status -9"):
                await taking
        assert store.snapshots() == []
        assert (await writer.snapshot()).position == writer.learner.position

    during(store, tmp_path, work)


def test_a_child_that_fails_says_why(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    async def work(writer: Writer) -> None:
        with monkeypatch.context() as full:
            full.setattr("numpy.savez", full_disk)
            with pytest.raises(StoreUnavailable, match="No space left on device"):
                await writer.snapshot()

    during(store, tmp_path, work)


def test_a_stop_does_not_wait_for_a_child_that_takes_long(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = children()
    monkeypatch.setattr(snapshots, "LONGEST_LAST", 0.2)
    monkeypatch.setattr(Learner, "view", lambda _: signal.pause())

    async def live() -> None:
        writer = Writer(store, recovered(store, SAME), WriterLimits(snapshot_lines=1, snapshot_seconds=0), tmp_path)
        await writer.start(lambda: None)
        await writer.write([event(1)])
        await writer.write([event(2)])
        await asyncio.wait_for(writer.stop(), PATIENCE)

    asyncio.run(live())
    assert children() <= others
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_child_holds_nothing_of_its_parents(tmp_path: Path) -> None:
    """Neither its locks, nor its connections, nor its signals: only the standard streams, and the pipe."""
    with open(tmp_path / "held", "w") as held:

        def look() -> dict[str, object]:
            there = [n for n in range(256) if Path(f"/proc/self/fd/{n}").exists()]
            ignored = signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
            return {"open": there, "ignores": ignored, "pid": os.getpid(), "masked": len(signal.pthread_sigmask(0, ()))}

        answer = asyncio.run(Fork(look).answer())
        assert held.fileno() not in answer["open"]
    assert len([n for n in answer["open"] if n > 2]) == 1
    assert answer["ignores"] is True
    assert answer["masked"] == 0
    assert answer["pid"] != os.getpid()


def test_a_fork_that_fails_is_a_snapshot_that_could_not_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory() -> int:
        raise OSError(12, "Cannot allocate memory")

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(os, "fork", no_memory)
    with pytest.raises(StoreUnavailable, match="Cannot allocate memory"):
        Fork(dict)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_child_is_given_up_after_a_time() -> None:
    others = children()
    with pytest.raises(StoreUnavailable, match=r"not written in 0\.1 seconds"):
        asyncio.run(Fork(lambda: {"never": signal.pause()}).answer(0.1))
    assert fork.LONGEST > 60
    assert children() <= others


def test_the_library_loads_full_ones_and_refuses_increments(store: SqliteStore, tmp_path: Path) -> None:
    during(store, tmp_path, taken(2))
    full, made = sorted(store.snapshots())
    with store.opened(full) as path:
        assert Recommender.load(path).size.users == 300
    with store.opened(made) as path, pytest.raises(InvalidSnapshot, match="holds an increment of a service"):
        Recommender.load(path)


def test_a_file_is_left_to_the_process_that_writes_it(tmp_path: Path) -> None:
    """Replicas on one machine may have one folder: only what a dead process left is cleared away."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as alive:
        own, other = (tmp_path / f".full-{pid}-1.taking.snapshot" for pid in (os.getpid(), alive.pid))
        assert [_is_being_written(file) for file in (own, other, tmp_path / ".full.taking.snapshot")] == [False, True, False]
        alive.kill()
        wait = time.monotonic() + PATIENCE
        while _is_being_written(other) and time.monotonic() < wait:
            time.sleep(0.01)
        assert not _is_being_written(other)  # though nobody has asked for its status yet


def test_a_state_is_left_as_it_is_by_what_is_made_of_it(store: SqliteStore, tmp_path: Path) -> None:
    """Its fingerprint is found meanwhile, and is what the next increment builds on."""
    during(store, tmp_path, taken(1))
    saved = next(iter(store.snapshots()))

    def learned_from(state: State) -> State:
        learner = Learner.load(store, saved)
        learner.recommender = Recommender.from_state(*state)
        for n in range(9):
            learner.apply(learner.position + 1, event(n))
        return state

    state, chain = made_of_chain(store, saved, learned_from)
    found = fingerprint(state)
    assert found.seal == chain.fingerprint.seal
    assert all((found.digests[name] == own).all() for name, own in chain.fingerprint.digests.items())


def test_memory_is_moved_together_again_after_every_fork_until_the_end(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[bool]()

    def noted(_: float, is_over: Callable[[], bool]) -> int:
        asked.append(is_over())
        return 0

    async def three(writer: Writer) -> None:
        assert writer.snapshots._collapsing._task is not None  # since the start
        await writer.snapshots._collapsing._task
        for n in range(3):
            await writer.write([event(n)] if n else MANY)
            await writer.snapshot()
            assert writer.snapshots._collapsing._task is not None
            await writer.snapshots._collapsing._task
        await writer.write([event(9)])

    monkeypatch.setattr(memory_tuning, "collapse", noted)
    during(store, tmp_path, three)
    assert asked == [False] * 4  # and not after the last, when everything ends


def test_a_failed_writer_leaves_nothing_behind_that_goes_on(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = list[bool]()

    def long(_: float, is_over: Callable[[], bool]) -> int:
        while not is_over():
            pass
        ended.append(True)
        return 0

    async def live() -> None:
        writer = Writer(store, recovered(store, SAME), NEVER, tmp_path)
        await writer.start(lambda: None)
        await writer.snapshot()
        writer.failed = StoreUnavailable("gone")
        await asyncio.wait_for(writer.stop(), PATIENCE)

    monkeypatch.setattr(memory_tuning, "collapse", long)
    asyncio.run(live())
    assert ended == [True]
