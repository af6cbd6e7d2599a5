"""Two processes that both believe to be the one writer: what either acknowledged is known to both, or one of them ends."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstream import Category, Id, Schema
from coldstream.config import Hyperparameters
from coldstream.errors import StoreUnavailable
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, Record, UserPut
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.verification import verified
from coldstream.runtime.writing import writer as module
from coldstream.runtime.writing.checks import Refused
from coldstream.runtime.writing.writer import Overtaken, Stopping, Writer
from coldstream.storage import stores
from coldstream.storage.postgres import session as postgres_session
from coldstream.storage.store import Store
from conftest import bits
from patience import PATIENCE

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytest_plugins = ["postgres_server"]

REQUESTED = RequestedModel(Schema(user=[Id()], item=[Id(), Category("genre")]), Hyperparameters(factors=3, negatives=3), 0)
SAME = RequestedModel(None, None, None)
NEVER = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=0)


class Contested:
    """A store whose writer can lose the right to write without hearing of it."""

    def __init__(self, url: str, take_away: Callable[[], None], folder: Path) -> None:
        self.url, self.take_away, self.folder = url, take_away, folder

    async def writer(self, store: Store) -> Writer:
        writer = Writer(store, recovered(store, REQUESTED), NEVER, Path(tempfile.mkdtemp(dir=self.folder)))
        await writer.start(lambda: None)
        return writer


@pytest.fixture(params=["sqlite", "postgresql"])
def contested(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contested:
    monkeypatch.setattr(postgres_session, "PATIENCE", 0.2)
    if request.param == "sqlite":
        return Contested(f"sqlite:{tmp_path / 'data'}", (tmp_path / "data" / "lock").unlink, tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres")
    return Contested(server.new_schema(), server.end_sessions, tmp_path)


async def insist(writer: Writer, records: list[Record]) -> list[int | None]:
    """Send again what the store did not take."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            return await writer.write(records)
        except StoreUnavailable:
            await asyncio.sleep(0.005)
    raise AssertionError("it was never taken")


async def meanwhile(contested: Contested, *calls: list[Record], forget: str | None = None) -> None:
    """What another process gets acknowledged while the first has lost the right to write."""
    contested.take_away()
    other = await contested.writer(stores.opened(contested.url))
    for records in calls:
        await other.write(records)
    if forget is not None:
        await other.forget(forget)
        while other.erasures.pending:
            await asyncio.sleep(0.01)
    await other.stop()


@pytest.mark.parametrize("notices", ["at a write", "at a snapshot"])
def test_what_another_writer_got_acknowledged_is_learned_before_anything_else(contested: Contested, notices: str) -> None:
    async def live() -> Writer:
        first = await contested.writer(stores.opened(contested.url))
        await first.write([Interaction("ann", "i1", 0.0), Interaction("ann", "i2", 1.0)])
        await meanwhile(contested, [Interaction("bob", "i3", 2.0, {}, "e1")], [UserPut("cy", {}), ItemPut("i9", {})])
        if notices == "at a snapshot":  # it fails, and the connection that is made next does not tell of it
            for _ in range(2):
                with suppress(StoreUnavailable):
                    await first.snapshot()
        assert await insist(first, [Interaction("dee", "i9", 3.0), Interaction("bob", "i3", 2.0, {}, "e1")]) == [7, None]
        for user in ("ann", "bob", "cy", "dee"):
            assert first.learner.recommender.has_user(user)
        assert first.learner.position == 7
        await first.stop()
        return first

    learner = asyncio.run(live()).learner
    with closing(stores.opened(contested.url)) as store:
        again = recovered(store, SAME)
        assert bits(again.recommender) == bits(learner.recommender)
        assert again.recommender.has_user("bob")
        assert verified(store, False, lambda _: None).different == []


def test_what_is_written_is_checked_again_in_view_of_what_another_wrote(contested: Contested) -> None:
    async def live() -> None:
        first = await contested.writer(stores.opened(contested.url))
        await first.write([ItemPut("i1", {})])
        await meanwhile(contested, [ItemRemoved("i1")])
        with pytest.raises(Refused, match="not in the catalogue"):
            await insist(first, [ItemRemoved("i1")])
        await first.stop()

    asyncio.run(live())
    with closing(stores.opened(contested.url)) as store:
        assert recovered(store, SAME).position == 3


def test_calls_that_wait_keep_their_order_when_another_wrote(contested: Contested) -> None:
    async def live() -> None:
        first = await contested.writer(stores.opened(contested.url))
        await first.write([ItemPut("i1", {})])
        await meanwhile(contested, [ItemPut("i2", {})])
        calls = (first.write([Interaction(f"u{n}", "i1")]) for n in range(5))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        if contested.url.startswith("postgresql"):  # those who shared the connection that was lost hear of it
            assert all(isinstance(answer, StoreUnavailable) for answer in answers)
            answers = await asyncio.gather(*(first.write([Interaction(f"u{n}", "i1")]) for n in range(5)))
        assert answers == [[4], [5], [6], [7], [8]]
        assert first.waiting == 0
        await first.stop()

    asyncio.run(live())


def test_whoever_missed_an_erasure_ends_and_writes_no_snapshot_of_it(
    contested: Contested, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIDY_EVERY", 0.01)

    async def live() -> Writer:
        first = await contested.writer(stores.opened(contested.url))
        first.compaction._look_at = inf  # or it would notice the other one before the erasure, and learn what that one wrote
        await first.write([Interaction("ann", "i1", 0.0), Interaction("bob", "i2", 1.0)])
        await first._upkeep.end()
        await meanwhile(contested, [Interaction("ann", "i2", 2.0)], forget="ann")
        with pytest.raises((Stopping, StoreUnavailable)):
            await first.snapshot()
        with pytest.raises(Stopping):
            await insist(first, [Interaction("dee", "i9", 3.0)])
        await first.stop()
        return first

    assert isinstance(asyncio.run(live()).failed, Overtaken)
    with closing(stores.opened(contested.url)) as store:
        recommender = recovered(store, SAME).recommender
        assert (recommender.has_user("ann"), recommender.has_user("bob")) == (False, True)
        assert all(saved.position >= store.base() for saved in store.snapshots())
