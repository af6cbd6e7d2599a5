"""Values that only those who leave had go with them, and every replay agrees."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coldstream import Categories, Category, Id, Number, Recommender, Schema
from coldstream.config import Hyperparameters
from coldstream.errors import StoreUnavailable
from coldstream.runtime.learner import Learner
from coldstream.runtime.records import Interaction, ItemPut, UserForgotten, UserPut, line
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.verification import verified
from coldstream.runtime.writer import Writer, WriterLimits
from coldstream.storage import stores
from coldstream.storage.sqlite import SqliteStore
from coldstream.storage.store import LogLine, Saved
from conftest import bits

SCHEMA = Schema(
    user=[Id(), Category("country"), Number("age", bins=(18, 65)), Number("height", scale=100)],
    item=[Id(), Category("genre")],
    context=[Category("mail"), Categories("tags")],
)
NEVER = WriterLimits(snapshot_lines=0, snapshot_seconds=0)
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
    (column,) = recommender.inspection.columns_of("user", {"country": country})
    return recommender._shared.machine.parameters.theta.V[column].tolist()


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
        assert await writer.forget("ann") is True
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
        await writer.forget("ann")
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
        await writer.forget("ann")
        assert "context.mail=the-couple@example.org" in features(writer.learner)
        await asyncio.gather(*(writer.forget(who) for who in people[1:]))
        assert "context.mail=the-couple@example.org" not in features(writer.learner)

    assert recovers_to(folder, during(store, folder, work))
    assert b"the-couple@example.org" not in everything_in(folder)


def test_a_value_that_somebody_once_had_and_changed_stays(store: Full, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, UserPut("bob", {"country": "Liechtenstein"}), UserPut("bob", {"country": "NL"})])
        await writer.forget("ann")
        assert "user.country=Liechtenstein" in features(writer.learner)  # a line of bob's says it

    during(store, folder, work)


def test_whoever_comes_back_before_the_erasure_keeps_what_they_say_then(store: Full, folder: Path) -> None:
    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])
        store.full = True
        assert await writer.forget("ann") is False
        await writer.write([UserPut("ann", {"country": "Liechtenstein"})])
        await writer.forget("bob")
        assert {"user.country=Liechtenstein"} <= features(writer.learner)
        assert "context.mail=bob@example.org" not in features(writer.learner)
        store.full = False

    learner = during(store, folder, work)
    assert recovers_to(folder, learner)
    assert b"bob@example.org" not in everything_in(folder)
    assert b"Liechtenstein" in everything_in(folder)


@pytest.mark.parametrize("silent", [False, True])
def test_a_crash_before_the_erasure_leads_to_the_same_bits(store: Full, folder: Path, silent: bool) -> None:
    """The line that asks for it says what goes, so a replay need not look for it."""

    async def work(writer: Writer) -> None:
        await writer.write([*ITEMS, *ANN, *BOB])
        store.full, store.silent = True, silent
        if silent:
            with pytest.raises(StoreUnavailable):
                await writer.forget("ann")
        else:
            assert await writer.forget("ann") is False
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
        await writer.forget("bob")
        assert not [name for name in features(writer.learner) if "example.org" in name]

    with closing(Full(folder)) as again:
        during(again, folder, after)
    assert b"example.org" not in everything_in(folder)


def test_the_line_that_asks_for_it_repeats_no_value() -> None:
    written: Any = line(UserForgotten("ann", (3, 17)))
    assert written.body == b'{"kind":"user-forgotten","id":"ann","columns":[3,17]}'
    assert line(UserForgotten("ann")).body == b'{"kind":"user-forgotten","id":"ann"}'
