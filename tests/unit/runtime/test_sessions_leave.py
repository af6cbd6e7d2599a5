"""Sessions go with those they were folded into, whoever remembers it; and whoever has lines can be forgotten."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coldstream import Category, Id, Schema, UnknownId
from coldstream.config import Hyperparameters
from coldstream.runtime.erasure import log_reading
from coldstream.runtime.erasure.claims import Claims
from coldstream.runtime.erasure.leaving import Leaving
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, Record, UserForgotten, UserMerged, UserPut, line
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.verification import verified
from coldstream.runtime.writing import upkeep
from coldstream.runtime.writing import writer as module
from coldstream.runtime.writing.checks import Refused
from coldstream.runtime.writing.writer import Writer
from coldstream.storage import stores
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.storage.store import LogLine
from coldstream.support.steps import finished
from conftest import bits
from patience import PATIENCE, until

SCHEMA = Schema(user=[Id(), Category("country")], item=[Id()], context=[Category("mail")])
NEVER = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=0)
MOST = 4
"""Users for whom there is room, where some have to go."""


class Gated(SqliteStore):
    """A store whose appends wait as long as it is told so."""

    gate: threading.Event | None = None
    waits = False

    def append(self, lines: Sequence[LogLine], after: int, /) -> list[int | None]:
        if self.gate is not None:
            self.waits = True
            assert self.gate.wait(PATIENCE)
        return super().append(lines, after)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIDY_EVERY", 0.01)
    monkeypatch.setattr(upkeep, "RETRY_AFTER", 0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(folder: Path) -> Iterator[Gated]:
    with closing(Gated(folder)) as opened:
        yield opened


def during(store: Gated, folder: Path, work: Callable[[Writer], Awaitable[None]], **bounds: Any) -> Writer:
    async def live() -> Writer:
        requested = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0, bounds)
        writer = Writer(store, recovered(store, requested), NEVER, folder)
        await writer.start(lambda: None)
        try:
            await asyncio.wait_for(work(writer), PATIENCE)
        finally:
            await writer.stop()
        assert writer.failed is None
        return writer

    return asyncio.run(live())


async def erased(writer: Writer) -> None:
    while writer.erasures.pending:
        await asyncio.sleep(0.01)


def visit(session: str) -> Interaction:
    return Interaction(session, "i1", 0.0, {"mail": f"mail-of-{session}"})


async def others_come(writer: Writer) -> None:
    """As many as there is room for come again and again, until whoever was there before has gone."""
    for _ in range(4):
        await writer.write([Interaction(f"crowd-{n}", "i1") for n in range(MOST)])


def left_in(folder: Path, *traces: str) -> list[str]:
    found = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return [trace for trace in traces if trace.encode() in found]


def agrees(folder: Path, writer: Writer) -> bool:
    with closing(stores.inspected(f"sqlite:{folder}")) as view:
        assert verified(view, False, lambda _: None).different == []
    with closing(SqliteStore(folder)) as reopened:
        return bits(recovered(reopened, RequestedModel(None, None, None)).recommender) == bits(writer.learner.recommender)


@pytest.mark.parametrize("comes_back", [False, True])
def test_the_sessions_of_somebody_who_had_to_go_are_erased_too(
    store: Gated, folder: Path, comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "PAGE", 3)  # the lines of a session and the one that folds it are on several pages

    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), visit("visit-1"), visit("visit-2"), visit("visit-9")])
        for session, user in (("visit-1", "visit-2"), ("visit-2", "ann"), ("visit-9", "bob")):
            await writer.write([UserMerged(session, user)])
        await others_come(writer)
        assert not writer.learner.recommender.has_user("ann")
        assert left_in(folder, "mail-of-visit-1", "mail-of-visit-2") == ["mail-of-visit-1", "mail-of-visit-2"]
        if comes_back:
            await writer.write([Interaction("ann", "i1")])
        await writer.forget("ann")
        await erased(writer)
        features = writer.learner.recommender.inspection.features("mail", 100).names
        assert list(features) == ["context.mail=mail-of-visit-9"]

    writer = during(store, folder, work, users=MOST)
    assert left_in(folder, "ann", "visit-1", "visit-2", "visit-9") == ["visit-9"]
    assert agrees(folder, writer)


def test_an_erasure_of_sessions_that_a_crash_cut_short_is_made_up_for(store: Gated, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), visit("visit-1")])
        await writer.write([UserMerged("visit-1", "ann")])
        await others_come(writer)
        purge = store.purge_in_steps

        def cut_short(users: Any, base: int, /) -> Iterator[None]:
            steps = purge(users, base)
            yield next(steps)
            failed.set()
            raise ZeroDivisionError

        store.purge_in_steps = cut_short  # type: ignore[method-assign]
        await writer.forget("ann")
        await until(failed.is_set)

    failed = threading.Event()
    during(store, folder, work, users=MOST)
    store.close()
    with closing(Gated(folder)) as reopened:
        during(reopened, folder, erased, users=MOST)
    assert left_in(folder, "ann", "visit-1") == []


def test_a_session_that_is_merged_at_the_moment_of_the_deletion_is_erased_too(store: Gated, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), visit("visit-1"), UserPut("ann", {})])
        store.gate = threading.Event()
        blocker = asyncio.create_task(writer.write([Interaction("bob", "i1")]))
        await until(lambda: store.waits)
        merging = asyncio.create_task(writer.write([UserMerged("visit-1", "ann")]))
        await asyncio.sleep(0)
        leaving = asyncio.create_task(writer.forget("ann"))
        await asyncio.sleep(0)
        store.gate.set()
        await asyncio.gather(blocker, merging)
        assert (await leaving).people == {"ann", "visit-1"}
        await erased(writer)

    writer = during(store, folder, work)
    assert left_in(folder, "ann", "visit-1") == []
    assert agrees(folder, writer)


def test_what_comes_under_a_sessions_id_after_its_user_went_stays(store: Gated, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), visit("visit-1")])
        await writer.write([UserMerged("visit-1", "ann")])
        await others_come(writer)
        await writer.write([Interaction("visit-1", "i1", 0.0, {"mail": "another-mail"})])
        await writer.forget("ann")
        await erased(writer)

    during(store, folder, work, users=MOST)
    assert left_in(folder, "ann", "mail-of-visit-1", "another-mail") == ["another-mail"]


def test_whoever_has_lines_can_be_forgotten_although_nobody_knows_them(
    store: Gated, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older release may have erased a user and left a session's lines."""
    monkeypatch.setattr(log_reading, "LOOKED_THROUGH", 2)

    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), *(visit(f"visit-{n}") for n in range(1, 5))])
        await writer.write([UserMerged("visit-4", "ann")])
        writer.learner.recommender.engine.users.sessions.clear()
        purge = store.purge_in_steps
        store.purge_in_steps = lambda users, base: purge({"ann": users["ann"]}, base)  # type: ignore[method-assign]
        await writer.forget("ann")
        await erased(writer)
        store.purge_in_steps = purge  # type: ignore[method-assign]
        assert left_in(folder, "ann", "visit-4") == ["visit-4"]
        assert not writer.learner.recommender.has_user("visit-4")
        with pytest.raises(Refused) as refused:
            await writer.forget("nobody")
        assert isinstance(refused.value.error, UnknownId)
        await writer.forget("visit-4")
        await erased(writer)
        with pytest.raises(Refused):
            await writer.forget("visit-4")

    writer = during(store, folder, work)
    assert left_in(folder, "visit-3", "visit-4") == ["visit-3"]
    assert agrees(folder, writer)


def test_those_who_are_to_be_erased_are_not_looked_for_in_the_log(store: Gated, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), visit("ann")])
        store.purge_in_steps = lambda *_: iter([None])  # type: ignore[method-assign]
        store.has_lines = None  # type: ignore[method-assign, assignment]
        writer.erasures.erase = None  # type: ignore[method-assign, assignment]
        await writer.forget("ann")
        with pytest.raises(Refused):
            await writer.forget("ann")

    during(store, folder, work)


def followed(lines: Sequence[Record], **people: int) -> dict[str, int]:
    leaving = Leaving(people)
    for position in range(len(lines), 0, -1):
        leaving.follow(position, lines[position - 1])
    return leaving.people


def test_sessions_leave_up_to_the_line_that_folded_them() -> None:
    lines = [
        UserMerged("a", "b"),
        UserMerged("b", "ann"),
        UserMerged("a", "b"),  # of another b, who came after it
        UserMerged("c", "ann"),
        UserForgotten("ann"),
        UserMerged("d", "ann"),
        UserMerged("c", "ann"),
    ]
    assert followed(lines, ann=5) == {"ann": 5, "b": 2, "a": 1, "c": 4}
    assert followed(lines, bob=7) == {"bob": 7}


def test_what_is_kept_of_deleted_lines_tells_of_sessions_of_sessions() -> None:
    claims = Claims([])
    for person in ("a", "b", "ann", "bob"):
        claims.add(person, [len(person)])
    for session, user in (("a", "b"), ("b", "ann"), ("ann", "b"), ("nobody", "ann")):
        claims.fold(session, user)
    kept = claims.new()
    for people, found in (({"ann": 7}, {"ann": 7, "b": 0, "a": 0}), ({"b": 3, "a": 2}, {"a": 2, "b": 3, "ann": 0})):
        leaving = Leaving(people)
        finished(leaving.follow_kept(kept))
        assert leaving.people == found
    assert not any(b"ann" in line.body for line in kept)


def test_the_log_says_of_a_merge_whose_line_it_is() -> None:
    assert line(UserMerged("visit", "ann")).user == "ann"
