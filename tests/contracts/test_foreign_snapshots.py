"""A snapshot of another log is refused, though it is of the same lines by their numbers."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from coldstream import Id, Schema
from coldstream.config import Hyperparameters
from coldstream.errors import StoreDamaged
from coldstream.runtime.learner import Learner, save
from coldstream.runtime.records import Interaction, ItemPut
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.verification import verified
from coldstream.runtime.writing.writer import Writer, WriterLimits
from coldstream.storage import stores
from coldstream.storage.store import Saved, Store
from conftest import bits

pytest_plugins = ["postgres_server", "stores_under_test"]

REQUESTED = RequestedModel(Schema(user=[Id()], item=[Id()]), Hyperparameters(factors=3, negatives=3), 0)


def lived(store: Store, taste: int, snapshots: int) -> Learner:
    """A service that took some snapshots, the first of them full, and did not close its store."""

    async def live() -> Learner:
        folder = Path(tempfile.mkdtemp())
        writer = Writer(store, recovered(store, REQUESTED), WriterLimits(snapshot_lines=0, snapshot_seconds=0), folder)
        await writer.start(lambda: None)
        await writer.write([ItemPut(f"i{n}", {}) for n in range(9)])
        for n in range(snapshots):
            await writer.write([Interaction(f"u{m}", f"i{(m * taste + n) % 9}", 60.0 * m) for m in range(30)])
            await writer.snapshot()
        return writer.learner

    return asyncio.run(live())


@pytest.fixture
def two(new_url: Callable[[], str]) -> Iterator[tuple[Store, Store]]:
    with ExitStack() as held:
        yield (
            held.enter_context(closing(stores.opened(new_url()))),
            held.enter_context(closing(stores.opened(new_url()))),
        )


def moved(one: Store, other: Store, folder: Path) -> list[Saved]:
    """Snapshots of one store in place of those of another."""
    for saved in other.snapshots():
        other.discard(saved)
    for saved in reversed(one.snapshots()):
        with one.opened(saved) as path:
            shutil.copy(path, folder / "copy")
        other.save(saved.position, folder / "copy")
    return other.snapshots()


@pytest.mark.parametrize("snapshots", [1, 3])
def test_a_snapshot_of_another_log_is_refused_and_both_are_named(
    two: tuple[Store, Store], tmp_path: Path, snapshots: int
) -> None:
    one, other = two
    lived(one, 1, snapshots)
    learner = lived(other, 2, snapshots)
    assert one.last() == other.last()
    newest = moved(one, other, tmp_path)[0]
    with pytest.raises(StoreDamaged) as raised:
        recovered(other, REQUESTED)
    line = other.last()
    for part in (
        other.log_name(),
        other.snapshot_name(newest),
        f"line {line}",
        f"{other.checksum(line):08x}",
        f"{one.checksum(line):08x}",
        "put back the log",
        "remove it",
    ):
        assert part in str(raised.value)
    for recent in (False, True):
        verdict = verified(other, recent, lambda _: None)
        assert verdict.same == []
        assert all("another log" in reason for _, reason in verdict.different)
    for saved in other.snapshots():
        other.discard(saved)
    assert bits(recovered(other, REQUESTED).recommender) == bits(learner.recommender)


def test_the_own_snapshots_are_used_also_behind_a_cut_and_a_purge(store: Store, tmp_path: Path) -> None:
    learner = lived(store, 1, 3)
    line = learner.position
    store.purge({"u1": line}, line)
    store.cut_off(line, [])
    for _ in store.clear_in_steps():
        pass
    assert store.checksum(line) is not None
    assert store.checksum(line - 60) is None or line - 60 < store.cut()
    assert bits(recovered(store, REQUESTED).recommender) == bits(learner.recommender)
    assert store.checksum(line + 5) is None


def test_an_older_snapshot_that_names_no_line_is_taken_as_before(store: Store, tmp_path: Path) -> None:
    learner = lived(store, 1, 1)
    for saved in store.snapshots():
        store.discard(saved)
    learner.line = None
    save(tmp_path / "older", learner.view())
    store.save(learner.position, tmp_path / "older")
    found = recovered(store, REQUESTED)
    assert found.chain is not None
    assert bits(found.recommender) == bits(learner.recommender)
