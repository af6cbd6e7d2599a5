"""What only a store in PostgreSQL has to do: come back when the server does, and keep the password to itself."""

import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from coldstream.errors import ColdstreamError, InvalidInput, StoreDamaged, StoreInUse, StoreMovedOn, StoreUnavailable
from coldstream.storage import stores
from coldstream.storage.checksums import Bounds, sealed
from coldstream.storage.postgres import log as postgres_log
from coldstream.storage.postgres import session as postgres_session
from coldstream.storage.postgres.followed import PostgresFollowed
from coldstream.storage.postgres.sharing import PostgresSharing
from coldstream.storage.postgres.store import PostgresStore, inspected
from coldstream.storage.store import Entry, LogLine
from patience import PATIENCE

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytest_plugins = ["postgres_server"]


def appended(store: PostgresStore, lines: list[LogLine]) -> list[int | None]:
    """Append to a log whatever it has."""
    return store.append(lines, store.last())


@pytest.fixture
def url(postgres: "PostgresServer") -> str:
    return postgres.new_schema()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store


def test_a_commit_is_synced_whatever_the_role_says(url: str) -> None:
    with closing(PostgresStore(f"{url}%20-csynchronous_commit%3Doff")) as store, store._session.connection() as connection:
        assert connection.execute("SHOW synchronous_commit").fetchall() == [("on",)]


def test_the_short_form_of_the_address_is_taken(url: str) -> None:
    stores.opened(url.replace("postgresql:", "postgres:")).close()
    stores.inspected(url.replace("postgresql:", "postgres:")).close()


def test_a_session_that_is_ended_comes_back(store: PostgresStore, postgres: "PostgresServer") -> None:
    appended(store, [LogLine(b"1")])
    for n in (2, 3):
        postgres.end_sessions()
        with pytest.raises(StoreUnavailable, match="and try again"):
            appended(store, [LogLine(b"%d" % n)])
        assert appended(store, [LogLine(b"%d" % n)]) == [n]
    assert [entry.body for entry in store.read(0)] == [b"1", b"2", b"3"]


def test_who_lost_its_session_to_another_process_may_not_write(
    url: str, store: PostgresStore, postgres: "PostgresServer", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "PATIENCE", 0.2)
    postgres.end_sessions()
    with closing(PostgresStore(url)) as other:
        with pytest.raises(StoreUnavailable):
            appended(store, [LogLine(b"1")])
        for _ in range(2):
            with pytest.raises(StoreInUse):
                appended(store, [LogLine(b"1")])
        assert appended(other, [LogLine(b"2")]) == [1]
    assert appended(store, [LogLine(b"3")]) == [2]


@pytest.mark.parametrize("wrote", [True, False])
def test_a_server_that_came_back_without_what_was_acknowledged_is_not_written_to(
    url: str, postgres: "PostgresServer", wrote: bool
) -> None:
    """As a standby may, which was a moment behind when it took over, and has been written to since."""
    store = PostgresStore(url)
    store.append([LogLine(b"1"), LogLine(b"2"), LogLine(b"3")], 0)
    if not wrote:  # it has read the lines of another
        store.close()
        store = PostgresStore(url)
    postgres.end_sessions()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM coldstream_log WHERE position > 1")
        ((checksum,),) = connection.execute("SELECT checksum FROM coldstream_log")
        behind = Bounds(0, 1, checksum)
        update = "UPDATE coldstream_meta SET last = 1, checksum = %s, seal = %s"
        connection.execute(update, (checksum, sealed(behind)))
    with closing(PostgresStore(url)) as other:
        other.append([LogLine(b"20"), LogLine(b"30"), LogLine(b"40")], 1)
    with pytest.raises(StoreUnavailable):
        store.append([LogLine(b"4")], 3)
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="does not have line 3 any more, which was acknowledged"):
            store.append([LogLine(b"4")], 3)
        with pytest.raises(StoreDamaged, match="does not have line 3 any more"):
            store.read(3)
    store.close()


def test_two_writers_at_once_cannot_both_continue_the_log(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing keeps them apart, such as behind a pool of connections, the log itself does."""
    monkeypatch.setattr("coldstream.storage.postgres.store.hold", lambda *_: None)
    asked = postgres_log.numbered
    with closing(PostgresStore(url)) as store, closing(PostgresStore(url)) as other:
        store.epoch = other.epoch  # as if the epoch did not keep them apart either

        def overtaken(*arguments: Any) -> Any:
            monkeypatch.setattr(postgres_log, "numbered", asked)
            assert other.append([LogLine(b"theirs")], 0) == [1]
            return asked(*arguments)

        monkeypatch.setattr(postgres_log, "numbered", overtaken)
        with pytest.raises(StoreMovedOn, match="behind line 0 meanwhile"):
            store.append([LogLine(b"ours"), LogLine(b"too")], 0)
        assert list(store.read(0)) == [Entry(1, b"theirs")]
        assert store.append([LogLine(b"ours")], 1) == [2]


def test_who_was_stopped_while_another_took_its_place_appends_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session and its lock may be as they were: the epoch is compared in the transaction that writes."""
    monkeypatch.setattr("coldstream.storage.postgres.store.hold", lambda *_: None)
    asked = postgres_log.numbered
    with closing(PostgresStore(url)) as store, closing(PostgresStore(url)) as other:
        store.epoch = other.epoch
        assert store.append([LogLine(b"ours")], 0) == [1]
        with closing(PostgresSharing(url)) as sharing:

            def stopped(*arguments: Any) -> Any:
                monkeypatch.setattr(postgres_log, "numbered", asked)
                assert sharing.unseat(store.epoch)
                return asked(*arguments)

            monkeypatch.setattr(postgres_log, "numbered", stopped)
            with pytest.raises(StoreInUse, match="another process has taken the right to write"):
                store.append([LogLine(b"too late")], 1)
        with pytest.raises(StoreInUse, match="nothing was written"):
            other.append([LogLine(b"too late")], 1)
        for late in (lambda: other.purge({}, 1), lambda: other.cut_off(1, [])):
            other.last()  # it has the right again, as far as it knows
            other.epoch -= 1
            with pytest.raises(StoreInUse):
                late()
        assert [entry.body for entry in store.read(0)] == [b"ours"]
        assert (store.base(), store.cut()) == (0, 0)


def test_a_writer_that_is_just_going_is_waited_for(url: str) -> None:
    going = PostgresStore(url)
    threading.Timer(0.3, going.close).start()
    with closing(PostgresStore(url)) as store:
        assert appended(store, [LogLine(b"1")]) == [1]


def test_schemas_have_writers_of_their_own(store: PostgresStore, postgres: "PostgresServer") -> None:
    with closing(PostgresStore(postgres.new_schema())) as other:
        assert (appended(store, [LogLine(b"1")]), appended(other, [LogLine(b"2")])) == ([1], [1])
        assert [entry.body for entry in store.read(0)] == [b"1"]


def test_a_failed_statement_leaves_nothing(store: PostgresStore, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE coldstream_log ADD CHECK (body <> 'poison')")
    with pytest.raises(psycopg.IntegrityError):
        appended(store, [LogLine(b"1", event_id="a"), LogLine(b"poison"), LogLine(b"2")])
    assert (store.last(), list(store.read(0))) == (0, [])
    assert appended(store, [LogLine(b"1", event_id="a")]) == [1]


def test_a_snapshot_is_saved_whole_or_not_at_all(
    store: PostgresStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_log, "CHUNK", 4)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE coldstream_snapshot_chunk ADD CHECK (content <> 'full')")
    (tmp_path / "file").write_bytes(b"so far, full")
    with pytest.raises(psycopg.IntegrityError):
        store.save(1, tmp_path / "file")
    assert store.snapshots() == []
    (tmp_path / "file").write_bytes(b"so far, so good")
    with store.opened(store.save(1, tmp_path / "file")) as path:
        assert path.read_bytes() == b"so far, so good"
    assert not path.exists()


def test_a_purge_clears_what_postgresql_keeps_of_deleted_rows(store: PostgresStore, url: str) -> None:
    appended(store, [LogLine(b"1", "ann"), LogLine(b"2")])
    store.purge({"ann": 2}, 2)
    with psycopg.connect(url) as connection:
        query = "SELECT vacuum_count FROM pg_stat_user_tables WHERE relid = 'coldstream_log'::regclass"
        assert connection.execute(query).fetchall() == [(1,)]


def test_a_role_that_may_not_make_tables_is_told(postgres: "PostgresServer", url: str) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
    with pytest.raises(StoreUnavailable, match="no schema has been selected"):
        PostgresStore(url.replace("coldstream@", "guest@"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO guest', current_schema()); END $$")
    with pytest.raises(StoreUnavailable, match="permission denied for schema"):
        PostgresStore(url.replace("coldstream@", "guest@"))


def test_a_log_without_its_last_line_is_found_damaged_by_whoever_checks_it(url: str, store: PostgresStore) -> None:
    appended(store, [LogLine(b"1"), LogLine(b"2")])
    with closing(inspected(url)) as view, closing(PostgresFollowed(url)) as followed:
        for own in (store, view, followed):
            own.check()
        with psycopg.connect(url) as other:
            other.execute("DELETE FROM coldstream_log WHERE position = 2")
        for own in (store, view, followed):
            with pytest.raises(StoreDamaged, match="should end at line 2"):
                own.check()


def test_a_newer_format_is_refused(url: str) -> None:
    PostgresStore(url).close()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE coldstream_meta SET version = 99")
    for use in (PostgresStore, inspected, PostgresStore):
        with pytest.raises(InvalidInput, match="has format 99, this release reads 4"):
            use(url)


def test_a_log_that_was_begun_without_epochs_is_taken_over(url: str) -> None:
    with closing(PostgresStore(url)) as store:
        appended(store, [LogLine(b"1")])
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE coldstream_writer")
        connection.execute("ALTER TABLE coldstream_meta DROP epoch")
        connection.execute("UPDATE coldstream_meta SET version = 3")
    with pytest.raises(InvalidInput, match="has format 3, this release reads 4; start the service once"):
        inspected(url)
    assert not stores.shared(url).is_there()  # whoever starts takes the right to write, and converts it
    for epoch, position in ((1, 2), (2, 3)):
        with closing(PostgresStore(url)) as store:
            assert store.epoch == epoch
            assert appended(store, [LogLine(b"2")]) == [position]
    assert stores.shared(url).is_there()


def test_a_follower_saves_no_snapshot_that_another_came_before(url: str, store: PostgresStore, tmp_path: Path) -> None:
    appended(store, [LogLine(b"1"), LogLine(b"2"), LogLine(b"3")])

    def file() -> Path:
        (tmp_path / "file").write_bytes(b"content")
        return tmp_path / "file"

    with closing(PostgresFollowed(url)) as one, closing(PostgresFollowed(url)) as other:
        assert (one.snapshots(), other.snapshots()) == ([], [])
        assert one.save(2, file()) == (1, 2)
        with pytest.raises(StoreMovedOn, match="another process saved snapshot 1 at the same time"):
            other.save(3, file())
        assert [saved.number for saved in other.snapshots()] == [1]
        with pytest.raises(StoreMovedOn, match="knows line 2, and this one line 1; it is not needed"):
            other.save(1, file())
        assert other.save(3, file()) == (2, 3)
        store.purge({}, 3)
        other.snapshots()
        with pytest.raises(StoreMovedOn):
            other.save(2, file())
        assert [saved.number for saved in store.snapshots()] == [2, 1]


def test_replicas_hear_of_new_lines_of_their_own_schema_and_of_the_writer(
    url: str, store: PostgresStore, postgres: "PostgresServer"
) -> None:
    with closing(PostgresSharing(url)) as sharing, closing(PostgresStore(postgres.new_schema())) as other:
        sharing.look()  # it listens from now on
        assert sharing.wait(0.05) is None
        appended(other, [LogLine(b"1")])
        assert sharing.wait(0.05) is None
        appended(store, [LogLine(b"1")])
        appended(store, [LogLine(b"2"), LogLine(b"3")])
        heard = sharing.wait(5.0)
        assert max(heard or 0, sharing.wait(0.2) or 0) == 3
        news = sharing.look()
        assert (news.epoch, news.last, news.base, news.address, news.held, news.followed) == (1, 3, 0, None, True, False)
        sharing.announce(1, "10.0.0.5:8000")
        assert sharing.wait(5.0) == 0
        assert sharing.look().address == "10.0.0.5:8000"
        assert sharing.beat(1)
        assert not sharing.beat(2)
        assert sharing.look().beat == 1
        assert sharing.take_duty()
        assert sharing.look().followed
        with closing(PostgresSharing(url)) as third:
            assert not third.take_duty()
            sharing.give_up_duty()
            assert third.take_duty()
        assert sharing.unseat(1)
        assert not sharing.unseat(1)
        with pytest.raises(StoreUnavailable, match="terminating connection"):
            store.last()
        assert (sharing.look().epoch, sharing.look().held) == (2, False)
        assert store.last() == 3
        assert (sharing.look().epoch, store.epoch) == (3, 3)


@pytest.mark.parametrize("holds", ["the session that writes", "another session"])
def test_a_writer_that_was_stopped_within_a_transaction_is_replaced(url: str, store: PostgresStore, holds: str) -> None:
    """What it has locked must not keep others waiting: its session is ended, or the server ends it before long."""
    appended(store, [LogLine(b"1")])
    with closing(PostgresSharing(url)) as other, closing(PostgresSharing(url)) as sharing:
        session = store._session if holds == "the session that writes" else other._session
        with session.connection() as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT FROM coldstream_meta FOR UPDATE")
            connection.execute("UPDATE coldstream_writer SET beat = beat + 1")
            epoch, until = store.epoch, time.monotonic() + PATIENCE
            ended = False
            while not ended and time.monotonic() < until:
                with suppress(StoreUnavailable):
                    ended = sharing.unseat(epoch)
            assert ended
            connection.close()
        assert sharing.look().epoch == epoch + 1


def test_who_looks_cannot_write(url: str, store: PostgresStore) -> None:
    appended(store, [LogLine(b"1")])
    with closing(inspected(url)) as view:
        with (
            pytest.raises(StoreUnavailable, match="read-only transaction"),
            view._session.connection() as connection,
        ):
            connection.execute("DELETE FROM coldstream_log")
        assert list(view.read(0)) == [Entry(1, b"1")]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:sEkret@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=ann&password=sEkret",
        "postgresql://ann:sE@kret@127.0.0.1/x",
        "postgresql://ann:sEkret@127.0.0.1:sEkret/x",
        "postgresql://ann:sE/kret@127.0.0.1/x",
        "postgresql://ann:sE%kret@127.0.0.1/x",
        "postgresql://ann:sE?kret@127.0.0.1/x",
        "postgresql://ann:sE[kret@127.0.0.1/x",
        "postgresql://ann:1/sEkret@127.0.0.1/x",
    ],
)
def test_a_password_is_never_shown(address: str) -> None:
    for use in (stores.opened, stores.inspected):
        with pytest.raises(ColdstreamError) as raised:
            use(address)
        shown = "".join(traceback.format_exception(raised.value))
        assert "sE" not in shown
        assert "kret" not in shown


def test_without_psycopg_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("coldstream.storage.postgres.store")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("coldstream.storage.postgres.store")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidInput, match=r"pip install 'coldstream\[service\]'"):
        stores.opened("postgresql://127.0.0.1/x")
