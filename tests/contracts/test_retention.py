"""A log that is kept for so long, or as long as there is room: nothing that is needed goes, and no bit is different."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from stores_under_test import SQLITE
from test_checksums import Raw

from coldstream import Category, Id, Recommender, Schema
from coldstream.config import Hyperparameters
from coldstream.runtime.erasure import compaction
from coldstream.runtime.erasure.claims import FEW, Claims, claimed, session_digest
from coldstream.runtime.erasure.erasures import UnclaimedValues
from coldstream.runtime.erasure.leaving import Leaving
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, Record, UserMerged, UserPut
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.verification import verified
from coldstream.runtime.writing import upkeep
from coldstream.runtime.writing import writer as module
from coldstream.runtime.writing.writer import Writer
from coldstream.storage import stores
from coldstream.storage.store import LogLine, Store
from coldstream.support.steps import finished
from conftest import bits
from patience import PATIENCE, until

pytest_plugins = ["postgres_server", "stores_under_test"]

SCHEMA = Schema(user=[Id(), Category("country")], item=[Id()], context=[Category("mail")])
REQUESTED, SAME = RequestedModel(SCHEMA, Hyperparameters(factors=3, negatives=3), 0), RequestedModel(None, None, None)


class Time:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "TIDY_EVERY", 0.01)
    monkeypatch.setattr(upkeep, "RETRY_AFTER", 0.01)
    return clock


def events(first: int, last: int) -> list[Record]:
    return [
        Interaction(f"u{n % 12}", f"i{n * n % 7}", 60.0 * n, {"mail": f"m{n % 12}"}, f"e{n}") for n in range(first, last)
    ]


def during(
    store: Store,
    limits: WriterLimits,
    work: Callable[[Writer], Awaitable[None]],
    requested: RequestedModel = REQUESTED,
) -> Learner:
    async def live() -> Learner:
        writer = Writer(store, recovered(store, requested), limits, Path(tempfile.mkdtemp()))
        await writer.start(lambda: None)
        try:
            await asyncio.wait_for(work(writer), PATIENCE)
        finally:
            await writer.stop()
        assert writer.failed is None
        return writer.learner

    return asyncio.run(live())


def limits(**more: Any) -> WriterLimits:
    return WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=0, **more)


def recovers_to(url: str, learner: Learner) -> bool:
    with closing(stores.opened(url)) as store:
        return bits(recovered(store, SAME).recommender) == bits(learner.recommender)


def names(learner: Learner) -> set[str]:
    return set(learner.recommender.inspection.features("", 1000).names)


def test_lines_go_when_they_are_old_and_new_snapshots_know_them(store: Store, url: str, clock: Time) -> None:
    async def work(writer: Writer) -> None:
        await writer.write(events(0, 100))
        await until(lambda: bool(store.marks()))
        clock.now += 500
        await asyncio.sleep(0.1)
        assert store.cut() == 0
        await writer.write(events(100, 150))
        await writer.snapshot()
        clock.now += 200  # they are old, and one snapshot alone might be damaged
        await until(lambda: store.cut() > 0)
        assert store.cut() == 101
        assert [saved.position for saved in store.snapshots()] == [151, 151]
        # What is in the window is not taken twice, and what is gone is new again.
        assert await writer.write([Interaction("u1", "i1", 0.0, {}, "e149")]) == [None]
        assert await writer.write([Interaction("u1", "i1", 0.0, {}, "e1")]) == [152]
        clock.now += 5000
        await until(lambda: store.cut() > 101)
        assert min(saved.position for saved in store.snapshots()) >= store.cut()
        assert len(store.snapshots()) >= 2

    learner = during(store, limits(retain_seconds=600), work)
    assert recovers_to(url, learner)


def test_a_log_that_is_compacted_leads_to_the_same_bits_as_one_that_is_not(new_url: Callable[[], str], clock: Time) -> None:
    async def work(writer: Writer) -> None:
        for first in range(0, 400, 50):
            await writer.write(events(first, first + 50))
            await writer.snapshot()
            if retain:
                await until(lambda: store.marks()[-1][0] == writer.learner.position)  # the time of these lines is known
            clock.now += 40
        await until(lambda: store.cut() > 100 * bool(retain) or not retain)

    found = []
    for retain in (0.0, 100.0):
        url = new_url()
        with closing(stores.opened(url)) as store:
            learner = during(store, limits(retain_seconds=retain), work)
        with closing(stores.inspected(url)) as view:
            verdict = verified(view, False, lambda _: None)
            assert verdict.different == []
            assert (verdict.cut > 100) == (retain > 0)
            assert len(list(view.read(0))) == view.last() - view.cut()
        with closing(stores.opened(url)) as store:
            assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)
        found.append(bits(learner.recommender))
    assert found[0] == found[1]


def test_a_store_that_takes_more_than_it_may_gives_up_its_oldest_lines(
    store: Store, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MOST_AT_ONCE", 500)
    monkeypatch.setattr("coldstream.storage.sqlite.compaction.MARGIN", 50)

    async def work(writer: Writer) -> None:
        long = {"mail": "m" * 200}
        for first in range(0, 3000, 500):
            await writer.write([Interaction("u", f"i{n % 5}", 0.0, long, f"e{n}") for n in range(first, first + 500)])
        await writer.snapshot()
        await writer.snapshot()

        def fits() -> bool:
            clock.now += 100  # the store is measured now and then, and once more after lines have gone
            return store.cut() > 0 and (writer.compaction.size or 0) < 500_000

        await until(fits)
        assert 500 < store.cut() < 2900
        assert len(list(store.read(0))) == store.last() - store.cut()

    during(store, limits(disk_bytes=500_000), work)


def test_what_a_killed_process_left_to_delete_is_deleted_at_the_next_start(
    url: str, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldstream.storage.sqlite.compaction.MARGIN", 5)

    async def first(writer: Writer) -> None:
        await writer.write(events(0, 100))
        await writer.snapshot()

    with closing(stores.opened(url)) as store:
        during(store, limits(), first)
    with closing(stores.opened(url)) as store:
        store.cut_off(90, [])

    async def rest(writer: Writer) -> None:
        with closing(Raw(url)) as raw:
            await until(lambda: raw.do("SELECT count(*) FROM {}log") < [(20,)])

    with closing(stores.opened(url)) as store:
        assert recovers_to(url, during(store, limits(), rest))


# Values of people whose lines are gone


def test_people_are_erased_with_their_values_though_their_lines_are_deleted(url: str, clock: Time) -> None:
    everybody = [UserPut(f"u{n}", {"country": "NL"}) for n in range(FEW + 2)]

    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), *everybody])
        await writer.write([UserPut("ann", {"country": "Liechtenstein"}), UserPut("bob", {"country": "Malta"})])
        mails = {"ann": "ann@example.org", "bob": "bob@example.org", "cy": "both@example.org", "dee": "both@example.org"}
        await writer.write([Interaction(who, "i1", 0.0, {"mail": mail}) for who, mail in mails.items()])
        await until(lambda: bool(store.marks()))
        clock.now += 50
        await asyncio.sleep(0.1)
        await writer.snapshot()
        await writer.snapshot()
        clock.now += 500
        await until(lambda: store.cut() == writer.learner.position)
        before = names(writer.learner)
        await writer.forget("ann")
        await until(lambda: not writer.erasures.pending)
        assert before - names(writer.learner) == {
            "user.id=ann",
            "user.country=Liechtenstein",
            "context.mail=ann@example.org",
        }
        await writer.forget("cy")
        await until(lambda: not writer.erasures.pending)
        assert "context.mail=both@example.org" in names(writer.learner)
        await writer.forget("dee")
        await until(lambda: not writer.erasures.pending)
        assert "context.mail=both@example.org" not in names(writer.learner)
        assert {"user.country=NL", "user.country=Malta", "context.mail=bob@example.org"} <= names(writer.learner)
        assert {line.user for line in store.kept()} == {None, "bob", *(f"u{n}" for n in range(FEW))}

    with closing(stores.opened(url)) as store:
        assert recovers_to(url, during(store, limits(retain_seconds=100), work))
    if url.startswith(SQLITE):
        left = b"".join(path.read_bytes() for path in Path(url.removeprefix("sqlite:")).rglob("*") if path.is_file())
        assert b"ann" not in left
        assert b"bob" in left


FEW_MAILS = RequestedModel(
    Schema(user=[Id()], item=[Id()], context=[Category("mail", most=3)]), Hyperparameters(factors=3, negatives=3), 0
)


async def deleted(writer: Writer, store: Store, clock: Time) -> None:
    """All lines so far are deleted."""
    await until(lambda: bool(store.marks()))
    clock.now += 50
    await asyncio.sleep(0.1)
    await writer.snapshot()
    await writer.snapshot()
    clock.now += 500
    await until(lambda: store.cut() == writer.learner.position)


@pytest.mark.parametrize("known", [True, False])
def test_a_session_goes_with_its_user_though_the_line_that_says_whose_it_was_is_deleted(
    url: str, clock: Time, known: bool
) -> None:
    """Where the user is known, and where nobody but the store knows any more whose the session was."""

    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), UserPut("bob", {"country": "Malta"})])
        mails = {"visit-1": "first@example.org", "visit-2": "second@example.org", "ann": "ann@example.org"}
        await writer.write([Interaction(who, "i1", 0.0, {"mail": mail}) for who, mail in mails.items()])
        await deleted(writer, store, clock)
        for session, user in (("visit-1", "visit-2"), ("visit-2", "ann")):
            await writer.write([UserMerged(session, user)])
        await writer.write([Interaction("bob", "i1", 0.0, {"mail": "bob@example.org"})])
        await deleted(writer, store, clock)
        if not known:
            writer.learner.recommender.engine.users.sessions.clear()
        await writer.forget("ann")
        await until(lambda: not writer.erasures.pending)
        left = {name for name in names(writer.learner) if "mail" in name}
        assert left == {"context.mail=bob@example.org"}
        assert {line.user for line in store.kept()} == {"bob"}

    with closing(stores.opened(url)) as store:
        during(store, limits(retain_seconds=100), work)
    if url.startswith(SQLITE):
        left = b"".join(path.read_bytes() for path in Path(url.removeprefix("sqlite:")).rglob("*") if path.is_file())
        assert not any(trace in left for trace in (b"visit-1", b"visit-2", b"ann", b"first@", b"second@"))


def column_of(writer: Writer, mail: str) -> int | None:
    inspection = writer.learner.recommender.inspection
    found = inspection.columns(inspection.values_of("context", {"mail": mail}))
    return found[0] if found else None


def test_a_claim_protects_no_value_that_came_to_the_column_of_another(store: Store, clock: Time) -> None:
    """Bob's value had to go for want of room, and somebody's who leaves came to its column."""

    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), Interaction("bob", "i1", 0.0, {"mail": "bob@example.org"})])
        claimed_column = column_of(writer, "bob@example.org")
        await deleted(writer, store, clock)
        for n in range(50):
            await writer.write([Interaction(f"p{n}", "i1", 0.0, {"mail": f"p{n}@example.org"})])
            if column_of(writer, f"p{n}@example.org") == claimed_column:
                break
        assert column_of(writer, "bob@example.org") is None
        assert f"context.mail=p{n}@example.org" in names(writer.learner)
        await writer.forget(f"p{n}")
        await until(lambda: not writer.erasures.pending)
        assert f"context.mail=p{n}@example.org" not in names(writer.learner)

    during(store, limits(retain_seconds=100), work, FEW_MAILS)


def test_a_claim_protects_a_value_that_went_and_came_again(store: Store, clock: Time) -> None:
    """Cy had it too, in a line that is deleted, when it had another column."""

    async def work(writer: Writer) -> None:
        await writer.write([ItemPut("i1", {}), Interaction("cy", "i1", 0.0, {"mail": "both@example.org"})])
        before = column_of(writer, "both@example.org")
        await deleted(writer, store, clock)
        n = 0
        while column_of(writer, "both@example.org") is not None:
            await writer.write([Interaction("eve", "i1", 0.0, {"mail": f"e{n}@example.org"})])
            n += 1
        while column_of(writer, "both@example.org") in (None, before):  # somebody else's has the column by now
            await writer.write([Interaction("eve", "i1", 0.0, {"mail": f"e{n}@example.org"})])
            await writer.write([Interaction("ann", "i1", 0.0, {"mail": "both@example.org"})])
            n += 1
        await writer.forget("ann")
        await until(lambda: not writer.erasures.pending)
        assert "context.mail=both@example.org" in names(writer.learner)
        await writer.forget("cy")
        await until(lambda: not writer.erasures.pending)
        assert "context.mail=both@example.org" not in names(writer.learner)

    during(store, limits(retain_seconds=100), work, FEW_MAILS)


def test_claims_of_older_releases_protect_what_has_the_column_now() -> None:
    recommender = Recommender(SCHEMA, factors=3)
    recommender.put_users([("ann", {"country": "NL"}), ("bob", {"country": "Malta"})])
    inspection = recommender.inspection
    malta, netherlands = (inspection.columns(inspection.values_of("user", {"country": name}))[0] for name in ("Malta", "NL"))
    kept = [LogLine(b'{"columns":[%d]}' % malta, "bob"), LogLine(b'{"columns":[%d]}' % netherlands, "ann")]
    unclaimed = UnclaimedValues(finished(inspection.given_in_steps()), Leaving({"ann": 9}))
    finished(unclaimed.read_kept(inspection, kept))
    assert unclaimed.columns(inspection) == (netherlands,)


def test_claims_are_kept_once_and_a_value_of_many_is_everybodys() -> None:
    claims = Claims([])
    claims.add("ann", [3, 5])
    claims.add("ann", [3])
    claims.add("bob", [3])
    kept = claims.new()
    assert sorted(claimed(kept), key=str) == [("ann", (3, 5), (), ()), ("bob", (3,), (), ())]
    assert claims.new() == []
    more = Claims([*kept, LogLine(b'{"values":[9]}')])
    more.add("cy", [9])
    more.add("ann", [5])
    assert more.new() == []
    for n in range(FEW):
        more.add(f"u{n}", [3])
    assert (None, (3,), (), ()) in list(claimed(more.new()))
    more.add("dee", [3])
    assert more.new() == []


def test_of_sessions_those_are_kept_of_whom_anything_is() -> None:
    claims = Claims([LogLine(b'{"values":[9]}', "visit-1")])
    claims.add("visit-2", [3])
    for session, user in (("visit-1", "visit-2"), ("visit-2", "ann"), ("visit-3", "ann")):
        claims.fold(session, user)
    found = {(claim.person, claim.sessions) for claim in claimed(claims.new()) if claim.sessions}
    assert found == {("visit-2", (session_digest("visit-1"),)), ("ann", (session_digest("visit-2"),))}
    assert claims.new() == []
