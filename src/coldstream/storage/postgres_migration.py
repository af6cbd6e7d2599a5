"""From format 1 in PostgreSQL, which has no checksums, to the one that has them."""

from psycopg import Connection

from coldstream.errors import StoreDamaged
from coldstream.storage.checksums import FIRST, REMEDY, Bounds, checksum, salts, sealed
from coldstream.storage.log_pages import PAGE
from coldstream.storage.postgres_log import OLD_VERSION, VERSION

_TABLES = """
ALTER TABLE coldstream_log ALTER forgets DROP NOT NULL, ALTER body DROP NOT NULL, ADD salt bigint, ADD checksum bigint;
ALTER TABLE coldstream_meta ADD checksum bigint, ADD seal bigint;
"""
_NOT_NULL = """
ALTER TABLE coldstream_log ALTER checksum SET NOT NULL;
ALTER TABLE coldstream_meta ALTER checksum SET NOT NULL, ALTER seal SET NOT NULL;
"""


def migrate(connection: Connection) -> None:
    """Give checksums to a log of format 1, all lines or none; one that has them is left alone."""
    ((version, base, last),) = connection.execute("SELECT version, base, last FROM coldstream_meta")
    if version != OLD_VERSION:
        return
    with connection.transaction():
        connection.execute(_TABLES)
        _fill_gaps(connection, base, last)
        done = Bounds(base, last, _summed(connection, last))
        query = "UPDATE coldstream_meta SET version = %s, checksum = %s, seal = %s"
        connection.execute(query, (VERSION, done.checksum, sealed(done)))
        connection.execute(_NOT_NULL)
    connection.execute("VACUUM coldstream_log")


def _fill_gaps(connection: Connection, base: int, last: int) -> None:
    """Leave the numbers of lines that were purged: format 1 deleted the lines."""
    query = "INSERT INTO coldstream_log (position) SELECT generate_series(1, %s::bigint) ON CONFLICT DO NOTHING"
    connection.execute(query, (base,))
    ((lines,),) = connection.execute("SELECT count(*) FROM coldstream_log")
    if lines != last:
        raise StoreDamaged(f"lines behind {base} are missing in the log in PostgreSQL, where none were erased; {REMEDY}")


def _summed(connection: Connection, last: int) -> int:
    """Write the checksums; the last of them."""
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
