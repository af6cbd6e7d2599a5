"""What was shown: remembered at once, kept in the background, counted by what was taken, gone with the person."""

import asyncio
import json
import math
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest
from api import SCHEMA, Api

from coldstream.errors import Interrupted, StoreDamaged, StoreUnavailable, UnknownId
from coldstream.events.event import MOST_PASSED_OVER
from coldstream.runtime.records import record_of
from coldstream.service.handlers import impressions as module
from coldstream.service.handlers.impressions import Impressions
from coldstream.service.handlers.shown_lists import Remembered, ShownLists
from coldstream.service.messages import core as messages
from coldstream.service.service import shown_bytes
from coldstream.service.settings import Settings
from coldstream.storage.shown import MOST_POSITIONS, PositionCount, ShownList, ShownStore, Take
from coldstream.storage.sqlite import shown as sqlite_shown
from coldstream.storage.sqlite.shown import SqliteShown, read
from patience import until

KINDS = SCHEMA + "[feedback]\nview = 0.2\npurchase = 1\ndislike = -1\n"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    served = Api(tmp_path, schema=KINDS, learning={"passed_over": 3}, erase_minutes=0.0).start()
    assert served.call("POST", "/items", [{"id": f"i{n}"} for n in range(20)]).status == 200
    yield served
    served.stop()


def listed(api: Api, **request: Any) -> tuple[str, list[str]]:
    answer = api.call("POST", "/recommend", {"n": 8, "remember": True, **request}).json
    return answer["recommendation_id"], [one["item"] for one in answer["items"]]


def lines(api: Api, count: int) -> list[Any]:
    assert api.service._store is not None
    return [json.loads(entry.body) for entry in api.service._store.read(api.service.learner.position - count)]


def positions(api: Api) -> list[tuple[int, int, int]]:
    return [tuple(one.values()) for one in api.call("GET", "/evaluation").json.get("positions", [])]


# What an event learns from it


def test_what_was_passed_over_stands_in_the_line_of_the_event(api: Api) -> None:
    name, items = listed(api, user="ann")
    taken = {"user": "ann", "recommendation_id": name}
    for item in (items[5], items[7], "i-other"):
        assert api.call("POST", "/events", {**taken, "item": item}).status == 200
    first, second, other = lines(api, 3)
    assert first["passed_over"] == items[2:5]
    assert second["passed_over"] == [items[3], items[4], items[6]]  # what was taken of the list was not passed over
    assert "passed_over" not in other
    given = {"user": "ann", "item": "i1", "passed_over": [3, "i4", "i5", "i6"]}
    assert api.call("POST", "/events", given).status == 200
    assert lines(api, 1)[0]["passed_over"] == ["i4", "i5", "i6"]
    replayed = [record_of(entry) for entry in api.service._store.read(api.service.learner.position - 1)]
    assert replayed[0].event().passed_over == ("i4", "i5", "i6")


def test_lines_of_a_stream_name_lists_too(api: Api) -> None:
    name, items = listed(api, user="bob")
    body = json.dumps({"user": "bob", "item": items[1], "recommendation_id": name}).encode() + b"\n{}\n"
    answer = api.call("POST", "/events", raw=body, headers={"content-type": "application/x-ndjson"}).json
    assert (answer["taken"], answer["refused"]) == (1, 1)
    assert lines(api, 1)[0]["passed_over"] == items[:1]
    assert positions(api)[1] == (2, 1, 1)


def test_what_is_not_learned_from_is_not_written(tmp_path: Path) -> None:
    api = Api(tmp_path).start()
    try:
        api.call("POST", "/items", [{"id": "a"}, {"id": "b"}])
        name, items = listed(api, user="ann")
        api.call("POST", "/events", {"user": "ann", "item": items[1], "recommendation_id": name, "passed_over": ["a"]})
        assert "passed_over" not in lines(api, 1)[0]
        assert lines(api, 1)[0]["recommendation_id"] == name
    finally:
        api.stop()


def test_a_dislike_is_no_take(api: Api) -> None:
    name, items = listed(api, user="ann", n=2)
    for kind in ("dislike", "view", "view"):
        event = {"user": "ann", "item": items[0], "kind": kind, "recommendation_id": name}
        assert api.call("POST", "/events", event).status == 200
        assert positions(api) == [(1, 1, int(kind == "view")), (2, 1, 0)]


def test_too_much_is_refused_with_the_limit(api: Api) -> None:
    assert messages.MOST_PASSED_OVER == MOST_PASSED_OVER
    refused = api.call("POST", "/events", {"user": "ann", "item": "i1", "passed_over": ["x"] * 101})
    assert (refused.status, refused.json["field"]) == (422, "$.passed_over")


# What survives, and what does not


def test_a_list_is_known_after_a_restart_and_in_another_process(tmp_path: Path) -> None:
    api = Api(tmp_path, schema=KINDS, learning={"passed_over": 3}).start()
    api.call("POST", "/items", [{"id": f"i{n}"} for n in range(20)])
    name, items = listed(api, user="ann")
    api.call("POST", "/events", {"user": "ann", "item": items[0], "recommendation_id": name})
    api.stop()
    api = Api(tmp_path, schema=KINDS, learning={"passed_over": 3}).start()
    try:
        assert positions(api)[0] == (1, 1, 1)
        following = [one["item"] for one in api.call("POST", "/recommend", {"user": "ann", "next_of": name}).json["items"]]
        assert following
        assert not {*items} & {*following}
        api.call("POST", "/events", {"user": "ann", "item": items[2], "recommendation_id": name})
        assert lines(api, 1)[0]["passed_over"] == items[1:2]
        assert positions(api)[2] == (3, 1, 1)
    finally:
        api.stop()


def test_lists_go_with_the_person_and_with_the_sessions_that_became_theirs(api: Api, tmp_path: Path) -> None:
    api.call("POST", "/events", [{"user": "visitor-7", "item": "i3"}, {"user": "ann", "item": "i4"}])
    ours, _ = listed(api, user="visitor-7")
    assert api.call("POST", "/users/ann/merge", {"session": "visitor-7"}).status == 200
    also, _ = listed(api, user="ann")
    other, _ = listed(api, user="bob")
    positions(api)  # has them kept
    assert api.call("DELETE", "/users/ann").status == 200
    for name, status in ((ours, 404), (also, 404), (other, 200)):
        assert api.call("POST", "/recommend", {"next_of": name}).status == status
    within(60, lambda: not any(b"visitor-7" in path.read_bytes() for path in (tmp_path / "data").glob("shown*")))


def test_whoever_was_forgotten_before_a_crash_is_erased_after_it(tmp_path: Path) -> None:
    api = Api(tmp_path, erase_minutes=1000.0).start()
    api.call("POST", "/events", {"user": "ann", "item": "a"})
    name, _ = listed(api, user="ann")
    api.run(api.service.writer.forget("ann"))  # and the process is gone before anything else is done
    api.stop()
    api = Api(tmp_path, erase_minutes=1000.0).start()
    try:
        for _ in range(1200):
            if not api.run(_found(api.service.impressions._store, name)):
                break
            api.run(asyncio.sleep(0.1))
        else:
            raise AssertionError("the list was not erased in two minutes")
    finally:
        api.stop()


async def _found(store: ShownStore | None, name: str) -> dict[str, ShownList]:
    assert store is not None
    return await asyncio.to_thread(store.find, [name])


# In memory


def test_old_lists_are_forgotten_for_want_of_room() -> None:
    lists = ShownLists(most=10)
    for name in ("first", "second", "third"):
        lists.add(Remembered(name, None, 0.0, ("a", "b", "c"), 0, True))
    assert [name in lists for name in ("first", "second", "third")] == [False, True, True]
    lists.add(Remembered("longest", None, 0.0, tuple(map(str, range(30))), 0, True))
    assert len(lists) == 1
    assert "longest" in lists


def test_without_a_store_lists_are_remembered_and_counted_all_the_same() -> None:
    async def run() -> None:
        own = Impressions()
        name = own.remember(["a", "b"], user="ann")
        page = own.remember(["c"], before=("a", "b"))
        assert await own.items(page) == ("a", "b", "c")
        own._take(name, "b")
        own._take(name, "b")
        assert await own.counts() == [PositionCount(0, 1, 0), PositionCount(1, 1, 1), PositionCount(2, 1, 0)]
        await own.erase(["ann"])
        with pytest.raises(UnknownId, match="ask for the first page again"):
            await own.items(name)
        await own.stop()

    asyncio.run(run())


def test_a_share_of_the_lists_is_kept_and_only_those_count(tmp_path: Path) -> None:
    async def run() -> None:
        own = Impressions(SqliteShown(tmp_path), share=0.25)
        names = [own.remember(["a"]) for _ in range(4000)]
        for name in names:
            own._take(name, "a")
        ((place, shown, taken),) = await own.counts()
        assert (place, shown) == (0, taken)
        assert abs(shown - 1000) < 5 * math.sqrt(4000 * 0.25 * 0.75)
        assert await own.items(names[-1]) == ("a",)  # the next page is there for all
        await own.stop()

    asyncio.run(run())


def test_without_a_store_the_first_positions_are_counted_and_no_others() -> None:
    async def run() -> None:
        own = Impressions()
        name = own.remember(map(str, range(MOST_POSITIONS + 5)))
        later = own.remember(["x", "y"], before=tuple(map(str, range(MOST_POSITIONS - 1))))
        for item in ("0", str(MOST_POSITIONS - 1), str(MOST_POSITIONS), str(MOST_POSITIONS + 4)):
            own._take(name, item)
        own._take(later, "y")
        counts = await own.counts()
        assert [one.position for one in counts] == list(range(MOST_POSITIONS))
        assert {one.position: one.taken for one in counts if one.taken} == {0: 1, MOST_POSITIONS - 1: 1}
        assert [one.shown for one in counts] == [1] * (MOST_POSITIONS - 1) + [2]
        await own.stop()

    asyncio.run(run())


def test_the_name_of_a_list_cannot_be_guessed() -> None:
    own = Impressions()
    names = {own.remember(["a"]) for _ in range(100)}
    assert len(names) == 100
    assert {len(name) for name in names} == {16}, "12 random bytes"


def test_takes_that_wait_for_a_slow_store_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    own = Impressions(Away())
    name = own.remember(["a", "b", "c", "d", "e"])
    for item in "abcde":
        own._take(name, item)
    assert [take.position for take in own._waiting.takes] == [0, 1, 2]


def test_a_store_that_is_away_is_logged_once_each_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        own, works = Impressions(Away()), SqliteShown(tmp_path)
        for _ in range(2):
            for _ in range(3):
                own.remember(["a"])
                await own._keep()
            own._store = works
            own.remember(["a"])
            await own._keep()
            own._store = cast(Any, Away())
        own._store = works
        await own.stop()

    asyncio.run(run())
    said = [vars(record)["count"] for record in caplog.records if "are not kept" in record.message]
    assert said == [1, 1]


def test_a_stop_keeps_what_waits_and_gives_the_store_and_its_thread_back(tmp_path: Path) -> None:
    async def run() -> None:
        own = Impressions(SqliteShown(tmp_path))
        name = own.remember(["a"])
        own.start(lambda: ())
        await own.stop()
        assert own._task is not None
        assert own._task.done()
        assert own._thread._shutdown
        again = SqliteShown(tmp_path)  # nobody holds it any more
        assert name in again.find([name])
        again.close()

    asyncio.run(run())


class Away:
    """A store whose disk fails."""

    def __getattr__(self, _: str) -> Any:
        def fail(*_: object) -> None:
            raise StoreUnavailable("the disk failed")

        return fail


def test_nobody_suffers_from_a_store_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(module, "MOST_WAITING", 3)
        own = Impressions(Away())
        names = [own.remember(["a", "b"]) for _ in range(5)]
        assert own.lost == 2
        assert await own.items(names[0]) == ("a", "b")
        assert await own.counts() == []
        assert (own.lost, len(own._waiting.lists)) == (2, 3)  # those that found room wait on
        await own.find(["unheard of"])
        await own.stop()

    asyncio.run(run())


def test_whoever_could_not_be_erased_is_when_the_store_is_back_although_the_log_knows_nobody_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        monkeypatch.setattr(module, "KEEP_EVERY", 0.05)
        own = Impressions(SqliteShown(tmp_path), retain=1e9)
        own.remember(["a"], user="ann")
        await own._keep()
        with closing(sqlite3.connect(tmp_path / "shown.sqlite", isolation_level=None)) as other:
            own.start(lambda: ())  # what the log says of people is gone already
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="holds"):
                await own.erase(["ann"])
            await asyncio.sleep(0.2)
            assert next(iter(read(tmp_path))).user == "ann"
            other.execute("COMMIT")
            await until(lambda: not list(read(tmp_path)))
        await own.stop()

    asyncio.run(run())


def test_a_stop_in_the_middle_of_an_erasure_is_quiet_and_the_next_start_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_shown, "STEP", 10)
    monkeypatch.setattr(module, "KEEP_EVERY", 0.01)

    async def first() -> None:
        own = Impressions(SqliteShown(tmp_path), retain=1e9)
        for _ in range(100):
            own.remember(["a"], user="ann")
        await own._keep()
        in_store, steps = own._in_store, 0

        async def counted(action: Any) -> Any:
            nonlocal steps
            steps += 1
            return await in_store(action)

        monkeypatch.setattr(own, "_in_store", counted)
        own.start(lambda: ["ann"])
        erasing = asyncio.ensure_future(own.erase(["ann"]))
        while steps < 5:
            await asyncio.sleep(0)
        await own.stop()
        with pytest.raises(Interrupted):
            await erasing
        with pytest.raises(Interrupted):
            await own.erase(["ann"])
        assert 0 < len(list(read(tmp_path))) < 100

    async def second() -> None:
        own = Impressions(SqliteShown(tmp_path), retain=1e9)
        own.start(lambda: ["ann"])
        async with asyncio.timeout(60):
            while list(read(tmp_path)):
                await asyncio.sleep(0.01)
        await own.stop()

    asyncio.run(first())
    asyncio.run(second())
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_who_was_only_shown_lists_can_be_deleted(api: Api, tmp_path: Path) -> None:
    kept, _ = listed(api, user="visitor-9")
    positions(api)  # has it kept
    api.service.impressions._lists = ShownLists()
    waiting, _ = listed(api, user="visitor-10")
    assert api.call("DELETE", "/users/visitor-11").status == 404
    for user, name in (("visitor-9", kept), ("visitor-10", waiting)):
        assert api.call("DELETE", f"/users/{user}").status == 200
        assert api.call("POST", "/recommend", {"next_of": name}).status == 404
    within(60, lambda: not api.service.writer.erasures.pending)
    everything = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"visitor-9" not in everything
    assert b"visitor-10" not in everything
    assert api.call("DELETE", "/users/visitor-9").status == 404


def test_nobody_is_refused_an_erasure_because_lists_cannot_be_looked_at() -> None:
    async def run() -> None:
        own = Impressions(Away())
        assert await own.has("somebody")
        assert not await Impressions().has("somebody")
        await own.stop()

    asyncio.run(run())


def test_an_event_that_names_the_list_of_somebody_else_marks_nothing(api: Api) -> None:
    name, items = listed(api, user="ann")
    taken = {"item": items[4], "recommendation_id": name}
    assert api.call("POST", "/events", {**taken, "user": "mallory"}).status == 200
    assert "passed_over" not in lines(api, 1)[0]
    assert [taken for _, _, taken in positions(api)] == [0] * 8
    assert "coldstream_shown_foreign 1.0" in api.call("GET", "/metrics").body.decode()
    assert api.call("POST", "/events", {**taken, "user": "ann"}).status == 200
    assert lines(api, 1)[0]["passed_over"] == items[1:4]
    assert positions(api)[4] == (5, 1, 1)
    anonymous, items = listed(api, user=None)
    assert api.call("POST", "/events", {"user": "bob", "item": items[1], "recommendation_id": anonymous}).status == 200
    assert lines(api, 1)[0]["passed_over"] == items[:1]
    assert api.service.impressions.foreign == 1


@pytest.mark.parametrize("told", [True, False])
def test_a_session_that_logs_in_may_take_of_its_list_also_where_the_store_has_not_heard_of_it(api: Api, told: bool) -> None:
    api.call("POST", "/events", [{"user": "visitor-7", "item": "i3"}, {"user": "ann", "item": "i4"}])
    name, items = listed(api, user="visitor-7")
    positions(api)  # has it kept
    if not told:
        api.service.impressions.hand_over = lambda *_: None  # type: ignore[method-assign]
    assert api.call("POST", "/users/ann/merge", {"session": "visitor-7"}).status == 200
    assert api.call("POST", "/events", {"user": "ann", "item": items[2], "recommendation_id": name}).status == 200
    assert lines(api, 1)[0]["passed_over"] == items[:2]
    assert api.service.impressions.foreign == 0


def test_a_store_that_does_not_answer_holds_up_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it neither answers nor fails."""
    monkeypatch.setattr(module, "LONGEST_FIND", 0.01)
    released = threading.Event()

    class Silent(Away):
        def keep(self, *_: object) -> None:
            released.wait()

    async def run() -> None:
        own = Impressions(Silent())
        own.remember(["a"])
        keeping = asyncio.ensure_future(own._keep())
        try:
            async with asyncio.timeout(60):
                await own.find(["unheard of"])
                assert await own.has("ann")
                own.forget(["ann"])
                own.hand_over("session", "ann")
        finally:
            released.set()
        await keeping
        await own.stop()

    asyncio.run(run())


def test_after_failures_the_pauses_become_longer_and_all_parts_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, pauses = list[str](), list[float]()

    class Failing:
        def __getattr__(self, name: str) -> Any:
            def fail(*_: object) -> None:
                tried.append(name)
                raise StoreUnavailable("the disk failed")

            return fail

    async def run() -> None:
        own = Impressions(cast(Any, Failing()))
        enough = asyncio.Event()

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 9:
                enough.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(module, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": sleep}))
        own.remember(["a"], user="bob")
        own.hand_over("session", "bob")
        own.start(lambda: ["ann"])
        await enough.wait()
        await own.stop()

    asyncio.run(run())
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]
    assert tried[:4] == ["keep", "erase_in_steps", "hand_over_in_steps", "trim_in_steps"]


def test_what_waits_for_a_slow_store_is_bounded_by_items_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_ITEMS", 10)
    own = Impressions(Away())
    for _ in range(3):
        own.remember(["a", "b", "c", "d"])
    assert (own.lost, len(own._waiting.lists), own._waiting.items) == (1, 2, 8)
    own._waiting.put_back(own._waiting.portion())
    assert (len(own._waiting.lists), own._waiting.items) == (2, 8)


def test_lists_are_trimmed_to_their_bound_and_count_as_bytes_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRIM_EVERY", 0.0)
    monkeypatch.setattr(module, "KEEP_EVERY", 0.01)
    api = Api(tmp_path, shown_disk="200 kB").start()
    try:
        api.call("POST", "/items", [{"id": f"item-{n:030}"} for n in range(100)])
        for _ in range(100):
            listed(api, user="ann", n=100)
        assert positions(api)[0][1] == 100
        within(60, lambda: 0 < len(list(read(tmp_path / "data"))) < 90)
        within(60, lambda: api.service.impressions.bytes > 50_000)
        compaction = api.service.writer.compaction
        assert compaction._bytes_beside() == api.service.impressions.bytes
        text = api.call("GET", "/metrics").body.decode()
        assert float(text.rpartition("coldstream_shown_bytes ")[2].partition("\n")[0]) > 50_000
    finally:
        api.stop()


@pytest.mark.parametrize(("given", "most"), [({}, 10**9), ({"disk": "1GB"}, 10**8), ({"shown_disk": "5MB"}, 5 * 10**6)])
def test_lists_take_a_tenth_of_the_disk_at_most(given: dict[str, str], most: int) -> None:
    assert shown_bytes(Settings(**given)) == most


def within(seconds: float, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    until = monotonic() + seconds
    while not condition():
        assert monotonic() < until
        sleep(0.02)


def test_a_store_that_was_damaged_holds_up_nobody_who_writes_or_leaves(api: Api, tmp_path: Path) -> None:
    name, items = listed(api, user="ann")
    assert positions(api)  # it is kept by now
    api.service.impressions._lists = ShownLists()

    def fail(*_: object) -> None:
        raise StoreDamaged("shown.sqlite is damaged")

    store = api.service.impressions._store
    assert store is not None
    for call in ("find", "erase_in_steps", "counts", "hand_over_in_steps", "has"):
        setattr(store, call, fail)
    assert api.call("POST", "/events", {"user": "ann", "item": items[0], "recommendation_id": name}).status == 200
    assert api.call("POST", "/recommend", {"user": "ann", "next_of": name}).status == 404
    assert api.call("GET", "/evaluation").status == 200
    assert api.call("POST", "/users/bob/merge", {"session": "ann"}).status == 200
    assert api.call("DELETE", "/users/bob").status == 200
    for call in ("find", "erase_in_steps", "counts", "hand_over_in_steps", "has"):
        delattr(store, call)


class Slow(SqliteShown):
    """A store in which keeping a list takes its time."""

    def __init__(self, folder: Path, going_on: list[str]) -> None:
        super().__init__(folder)
        self.going_on = going_on

    def keep(self, lists: Sequence[ShownList], /) -> None:
        self.going_on.append("keep")
        super().keep(lists)

    def take(self, takes: Sequence[Take], /) -> None:
        self.going_on.append("take")
        super().take(takes)

    def erase_in_steps(self, users: Collection[str], /) -> Iterator[None]:
        self.going_on.append("erase")
        yield from super().erase_in_steps(users)


def test_a_list_that_another_process_keeps_after_an_erasure_goes_a_minute_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        now = [0.0]
        monkeypatch.setattr(module, "monotonic", lambda: now[0])
        monkeypatch.setattr(module, "KEEP_EVERY", 0.05)
        own, late = Impressions(SqliteShown(tmp_path), retain=1e9), SqliteShown(tmp_path)
        own.start(lambda: ())
        await own.erase(["ann"])
        late.keep([ShownList("late", "ann", 1e9, ("a",)), ShownList("bob's", "bob", 1e9, ("a",))])
        now[0] += module.EXPIRE_EVERY
        await until(lambda: not late.find(["late"]))
        assert list(late.find(["late", "bob's"])) == ["bob's"]
        await own.stop()
        late.close()

    asyncio.run(run())


def test_what_was_taken_is_told_after_what_was_shown_and_nothing_after_an_erasure(tmp_path: Path) -> None:
    async def run() -> None:
        done: list[str] = []
        own = Impressions(Slow(tmp_path, done))
        name = own.remember(["a"], user="ann")
        own._take(name, "a")
        own.remember(["b"], user="bob")
        keeping = asyncio.ensure_future(own._keep())
        await asyncio.sleep(0)
        later = own.remember(["c"], user="ann")
        await own.erase(["ann"])
        await keeping
        await own._keep()
        assert done == ["keep", "take", "erase"]
        store = own._store
        assert store is not None
        assert [one.user for one in store.read()] == ["bob"]
        assert later not in store.find([later])
        await own.stop()

    asyncio.run(run())
