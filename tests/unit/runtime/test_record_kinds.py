"""A new kind of record is one class: a toy goes through the writer, the log, a follower, a replay and `verify`."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from coldstream import Id, Recommender, Schema, UnknownId
from coldstream.config import Hyperparameters
from coldstream.errors import StoreDamaged
from coldstream.runtime.erasure.claims import Said
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import ClaimedValues, Interaction, ItemPut, Record, forget_kind, line, record_kind, record_of
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.replication.follower import Follower
from coldstream.runtime.replication.progress import Progress
from coldstream.runtime.verification import verified
from coldstream.runtime.writing.checks import Batch, Refused
from coldstream.runtime.writing.writer import Writer
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.storage.store import Entry
from conftest import bits

NEVER = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=0)
MODEL = RequestedModel(Schema(item=[Id()], user=[Id()]), Hyperparameters(factors=3, negatives=3), 0)


class Renamed(Record, frozen=True, tag="toy-renamed"):
    """An item got another id, and a person asked for it."""

    id: str
    into: str
    by: str

    checked_alone: ClassVar[bool] = True

    def person(self) -> str | None:
        return self.by

    def check(self, batch: Batch) -> None:
        if not batch.recommender.has_item(self.id):
            raise UnknownId(f"item {self.id!r} is not in the catalogue; nothing was renamed")

    def change(self, recommender: Recommender) -> None:
        attributes = recommender.item(self.id)
        recommender.remove_item(self.id)
        recommender.put_item(self.into, attributes)

    def claims(self) -> ClaimedValues | None:
        return ClaimedValues(self.by, "user", {"name": self.into})


@pytest.fixture
def toy() -> Iterator[type[Renamed]]:
    yield record_kind(Renamed)
    forget_kind(Renamed)


def test_a_toy_record_goes_from_the_writer_to_the_log_a_follower_a_replay_and_verify(
    toy: type[Renamed], tmp_path: Path
) -> None:
    async def write(store: SqliteStore) -> Recommender:
        writer = Writer(store, recovered(store, MODEL), NEVER, tmp_path)
        await writer.start(lambda: None)
        with pytest.raises(Refused, match="'i9' is not in the catalogue; nothing was renamed"):
            await writer.write([toy("i9", "i10", "u1")])
        await writer.write([ItemPut("i1", {}), ItemPut("i2", {}), Interaction("u1", "i1")])
        await writer.write([toy("i1", "i3", "u1")])
        await writer.write([Interaction("u1", "i3")])
        await writer.stop()
        return writer.learner.recommender

    async def follow(store: SqliteStore) -> Recommender:
        learner = Learner.begun(record_of(next(iter(store.read(0)))), 1)
        own = Follower(cast(Any, store), learner, WriterLimits(), tmp_path, Progress(), cast(Any, None))
        await own.start(lambda: None)
        async with asyncio.timeout(60.0):
            while own.learner.position < store.last():
                await asyncio.sleep(0.005)
        await own.stop()
        return own.learner.recommender

    written = asyncio.run(write(SqliteStore(tmp_path / "data")))
    assert written.items() == ["i2", "i3"]
    assert bits(asyncio.run(follow(SqliteStore(tmp_path / "data")))) == bits(written)
    with closing(SqliteStore(tmp_path / "data")) as store:
        assert bits(recovered(store, MODEL).recommender) == bits(written)
        assert verified(store, True, lambda _: None).same
    body = line(toy("i1", "i3", "u1"))
    assert body.user == "u1"
    claimed = Said().values(written.inspection, toy("i1", "i3", "u1"))
    assert claimed is not None
    assert claimed[0] == "u1"


def test_a_kind_that_is_not_registered_is_a_damaged_log() -> None:
    with pytest.raises(StoreDamaged, match="line 7 of the log cannot be read"):
        record_of(Entry(7, b'{"kind":"toy-renamed","id":"i1","into":"i3","by":"u1"}'))
