"""Conversion of older store formats in PostgreSQL: format 1 has no checksums, 2 no cut, and 3 no epoch."""

from psycopg import Connection

from coldstream.errors import StoreDamaged
from coldstream.storage.checksums import (
    FIRST,
    REMEDY,
    Bounds,
    check_bounds,
    checksum,
    salts,
    sealed,
    sealed_without_cut,
)
from coldstream.storage.log_pages import PAGE
from coldstream.storage.postgres import epoch as postgres_epoch
from coldstream.storage.postgres.log import SINCE_CUT, VERSION, WITHOUT_CHECKSUMS, WITHOUT_CUT, WITHOUT_EPOCH

_TABLES = """
ALTER TABLE coldstream_log ALTER forgets DROP NOT NULL, ALTER body DROP NOT NULL, ADD salt bigint, ADD checksum bigint;
ALTER TABLE coldstream_meta ADD checksum bigint, ADD seal bigint;
"""
_NOT_NULL = """
ALTER TABLE coldstream_log ALTER checksum SET NOT NULL;
ALTER TABLE coldstream_meta ALTER checksum SET NOT NULL, ALTER seal SET NOT NULL;
"""


def migrate(connection: Connection) -> None:
    """Convert a store of an older release to the current format, atomically."""
    ((version,),) = connection.execute("SELECT version FROM coldstream_meta")
    if version == WITHOUT_CHECKSUMS:
        _give_checksums(connection)
    elif version == WITHOUT_CUT:
        with connection.transaction():
            ((*found, seal),) = connection.execute("SELECT base, last, checksum, seal FROM coldstream_meta")
            _give_cut(connection, check_bounds(Bounds(*found), seal, sealed_without_cut))
    elif version == WITHOUT_EPOCH:
        with connection.transaction():
            _give_epoch(connection)


def _give_cut(connection: Connection, bounds: Bounds) -> None:
    connection.execute("ALTER TABLE coldstream_meta ADD cut bigint NOT NULL DEFAULT 0")
    connection.execute(SINCE_CUT)
    connection.execute("UPDATE coldstream_meta SET seal = %s", (sealed(bounds),))
    _give_epoch(connection)


def _give_epoch(connection: Connection) -> None:
    connection.execute("ALTER TABLE coldstream_meta ADD epoch bigint NOT NULL DEFAULT 0")
    connection.execute(postgres_epoch.TABLE)
    connection.execute("UPDATE coldstream_meta SET version = %s", (VERSION,))


def _give_checksums(connection: Connection) -> None:
    ((base, last),) = connection.execute("SELECT base, last FROM coldstream_meta")
    with connection.transaction():
        connection.execute(_TABLES)
        _fill_gaps(connection, base, last)
        done = Bounds(base, last, _summed(connection, last))
        connection.execute("UPDATE coldstream_meta SET checksum = %s", (done.checksum,))
        _give_cut(connection, done)
        connection.execute(_NOT_NULL)
    connection.execute("VACUUM coldstream_log")


def _fill_gaps(connection: Connection, base: int, last: int) -> None:
    """Insert blank rows for purged lines, which format 1 deleted."""
    query = "INSERT INTO coldstream_log (position) SELECT generate_series(1, %s::bigint) ON CONFLICT DO NOTHING"
    connection.execute(query, (base,))
    ((lines,),) = connection.execute("SELECT count(*) FROM coldstream_log")
    if lines != last:
        raise StoreDamaged(f"lines behind {base} are missing in the log in PostgreSQL, where none were erased; {REMEDY}")


def _summed(connection: Connection, last: int) -> int:
    """Write the checksums of all lines, and return the last one."""
    query = (
        "SELECT position, person, event, forgets, body FROM coldstream_log "
        "WHERE position BETWEEN %s AND %s ORDER BY position"
    )
    update = (
        "UPDATE coldstream_log SET salt = made.salt, checksum = made.checksum "
        "FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[]) AS made (position, salt, checksum) "
        "WHERE coldstream_log.position = made.position"
    )
    before = FIRST
    for first in range(1, last + 1, PAGE):
        rows = connection.execute(query, (first, first + PAGE - 1), binary=True).fetchall()
        made = list[tuple[int, int | None, int]]()
        for (position, person, event, forgets, body), salt in zip(rows, salts(len(rows)), strict=True):
            if body is not None:
                before = checksum(before, position, person, event, forgets, body, salt)
            made.append((position, None if body is None else salt, before))
        connection.execute(update, tuple(map(list, zip(*made, strict=True))))
    return before
