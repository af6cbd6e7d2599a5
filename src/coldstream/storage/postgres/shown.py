"""Shown lists in PostgreSQL. Every replica stores the lists that it shows, independently of the writer of the log."""

import logging
import math
from collections.abc import Collection, Iterator, Sequence
from typing import LiteralString

from psycopg import Connection

from coldstream.errors import StoreUnavailable
from coldstream.storage.postgres.epoch import let_nothing_hang
from coldstream.storage.postgres.session import Session, vacuum_in_steps
from coldstream.storage.shown import PositionCount, ShownList, Take, day_of, list_of, row_of, shown_counts, taken_counts

log = logging.getLogger(__name__)

PAGE = 1000
"""Number of lists read per query."""

STEP = 1000
"""Number of lists deleted or reassigned per transaction."""

SAMPLE = 1000
"""Number of recent lists whose average size estimates that of all lists."""

BESIDE = 150
"""Approximate bytes per list for index entries and the row header."""

LONGEST_LOCK = 2000
"""Milliseconds to wait for a lock that another session holds."""

MAKING = 0x636F6C66
"""The class id of the advisory lock under which the tables are created. The object id is the schema."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS coldstream_shown (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name bytea UNIQUE NOT NULL, person bytea,
    time double precision NOT NULL, items bytea NOT NULL, first integer NOT NULL, taken bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS coldstream_shown_person ON coldstream_shown USING hash (person);
CREATE INDEX IF NOT EXISTS coldstream_shown_time ON coldstream_shown (time);
CREATE TABLE IF NOT EXISTS coldstream_shown_count (
    day bigint, position integer, shown bigint NOT NULL, taken bigint NOT NULL, PRIMARY KEY (day, position)
);
"""
_COUNT = """
INSERT INTO coldstream_shown_count AS own
SELECT * FROM unnest(%b::bigint[], %b::integer[], %b::bigint[], %b::bigint[])
ON CONFLICT (day, position) DO UPDATE SET shown = own.shown + excluded.shown, taken = own.taken + excluded.taken
"""
_COLUMNS = "name, person, time, items, first, taken"


class PostgresShown:
    """The shown lists of all replicas on a database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = Session(url, _begin)
        try:
            with self._session.connection():  # creates the tables now, or once the server is available
                pass
        except StoreUnavailable as error:
            log.warning("lists that were shown cannot be kept yet", extra={"reason": str(error)})

    def keep(self, lists: Sequence[ShownList], /) -> None:
        columns = [list(column) for column in zip(*map(row_of, lists), strict=True)]
        types = "%b::bytea[], %b::bytea[], %b::double precision[], %b::bytea[], %b::integer[], %b::bytea[]"
        with self._session.connection() as connection, connection.transaction():
            query = f"INSERT INTO coldstream_shown ({_COLUMNS}) SELECT * FROM unnest({types}) ON CONFLICT DO NOTHING"  # noqa: S608
            connection.execute(query, columns)
            _count(connection, shown_counts(lists))

    def take(self, takes: Sequence[Take], /) -> None:
        with self._session.connection() as connection, connection.transaction():
            connection.cursor().executemany(
                "UPDATE coldstream_shown SET taken = taken || %b::bytea WHERE name = %b",
                [(bytes([take.position]), take.name.encode()) for take in takes if take.position < 256],
            )
            _count(connection, taken_counts(takes))

    def find(self, names: Collection[str], /) -> dict[str, ShownList]:
        query = f"SELECT {_COLUMNS} FROM coldstream_shown WHERE name = ANY (%b::bytea[])"  # noqa: S608
        with self._session.connection() as connection:
            rows = connection.execute(query, ([name.encode() for name in names],), binary=True).fetchall()
        return {one.name: one for one in map(list_of, rows)}

    def counts(self) -> list[PositionCount]:
        query = (
            "SELECT position, sum(shown)::bigint, sum(taken)::bigint FROM coldstream_shown_count "
            "GROUP BY position ORDER BY position"
        )
        with self._session.connection() as connection:
            return [PositionCount(*row) for row in connection.execute(query)]

    def has(self, user: str, /) -> bool:
        query = "SELECT EXISTS (SELECT FROM coldstream_shown WHERE person = %b)"
        with self._session.connection() as connection:
            ((there,),) = connection.execute(query, (user.encode(),))
        return bool(there)

    def erase_in_steps(self, users: Collection[str], /) -> Iterator[None]:
        while self._deleted("person = ANY (%b::bytea[])", [user.encode() for user in users], STEP):
            yield
        yield from vacuum_in_steps(self._url, "coldstream_shown")

    def hand_over_in_steps(self, session: str, user: str, /) -> Iterator[None]:
        some = "SELECT number FROM coldstream_shown WHERE person = %b LIMIT %b"
        query = f"UPDATE coldstream_shown SET person = %b WHERE number = ANY (ARRAY({some}))"  # noqa: S608
        while True:
            with self._session.connection() as connection:
                if not connection.execute(query, (user.encode(), session.encode(), STEP)).rowcount:
                    return
            yield

    def trim_in_steps(self, before: float, most: int, /) -> Iterator[None]:
        while self._deleted("time < %b", before, STEP):
            yield
        with self._session.connection() as connection:
            connection.execute("DELETE FROM coldstream_shown_count WHERE day < %b", (day_of(before),))
        while True:
            count, each = self._room()
            beyond = min(STEP, math.ceil((count * each - most) / each))
            if beyond <= 0 or not self._deleted("number > %b ORDER BY number", 0, beyond):
                return
            yield

    def size(self) -> int:
        count, each = self._room()
        return int(count * each)

    def _room(self) -> tuple[int, float]:
        """Return the approximate number of lists, from the first and last number, and the average bytes of recent lists."""
        query = f"""
            SELECT coalesce((SELECT max(number) - min(number) + 1 FROM coldstream_shown), 0),
            coalesce((SELECT avg(pg_column_size(late.*)) FROM
            (SELECT * FROM coldstream_shown ORDER BY number DESC LIMIT {SAMPLE}) AS late), 0)::float8
        """  # noqa: S608
        with self._session.connection() as connection:
            ((count, each),) = connection.execute(query)
        return int(count), each + BESIDE

    def _deleted(self, condition: LiteralString, value: object, count: int) -> bool:
        """Delete the first lists that meet a condition; return False if there were none."""
        some = f"SELECT number FROM coldstream_shown WHERE {condition} LIMIT %b"  # noqa: S608
        with self._session.connection() as connection:
            query = f"DELETE FROM coldstream_shown WHERE number = ANY (ARRAY({some}))"  # noqa: S608
            return connection.execute(query, (value, count)).rowcount > 0

    def read(self) -> Iterator[ShownList]:
        return _read(self._session)

    def close(self) -> None:
        self._session.close()


def read(url: str) -> Iterator[ShownList]:
    """Yield all shown lists of a database, while other processes may use it; none if no list was ever stored."""
    session = Session(url, _begin_to_read)
    try:
        with session.connection() as connection:
            ((there,),) = connection.execute("SELECT to_regclass('coldstream_shown') IS NOT NULL")
        if there:
            yield from _read(session)
    finally:
        session.close()


def _read(session: Session) -> Iterator[ShownList]:
    last = 0
    query = f"SELECT number, {_COLUMNS} FROM coldstream_shown WHERE number > %b ORDER BY number LIMIT {PAGE}"  # noqa: S608
    while True:
        with session.connection() as connection:
            rows = connection.execute(query, (last,), binary=True).fetchall()
        if not rows:
            return
        yield from (list_of(row[1:]) for row in rows)
        last = rows[-1][0]


def _begin_to_read(connection: Connection) -> None:
    connection.execute("SET default_transaction_read_only = on")


def _begin(connection: Connection) -> None:
    let_nothing_hang(connection)
    connection.execute(f"SET lock_timeout = {LONGEST_LOCK}")
    with connection.transaction():
        query = "SELECT pg_advisory_xact_lock(%s, hashtext(coalesce(current_schema(), '')))"
        connection.execute(query, (MAKING,))  # concurrent CREATE TABLE IF NOT EXISTS statements can fail
        connection.execute(_SCHEMA)


def _count(connection: Connection, rows: list[tuple[int, int, int, int]]) -> None:
    if rows:
        connection.execute(_COUNT, tuple(map(list, zip(*rows, strict=True))))
