"""Which store an address means: `sqlite:FOLDER` or `postgresql://USER@HOST/DATABASE`."""

from collections.abc import Callable
from typing import NamedTuple

from coldstream.errors import InvalidInput, shown
from coldstream.storage.store import Store
from coldstream.storage.view import View


class _Kind(NamedTuple):
    opened: Callable[[str], Store]
    inspected: Callable[[str], View]


def opened(url: str) -> Store:
    """The store at an address, made if there is none. Nobody else writes to it until it is closed."""
    return _kind(url).opened(url)


def inspected(url: str) -> View:
    """A look into the store at an address, whoever writes to it. It changes nothing."""
    return _kind(url).inspected(url)


def _kind(url: str) -> _Kind:
    prefix = url.partition(":")[0]  # the rest may hold a password
    if prefix not in _KINDS or prefix == url:
        known = "sqlite:FOLDER or postgresql://USER@HOST/DATABASE"
        raise InvalidInput(f"store: there is no kind {shown(prefix)}; give {known}")
    return _KINDS[prefix]()


def _sqlite() -> _Kind:
    from coldstream.storage import sqlite

    return _Kind(lambda url: sqlite.SqliteStore(_folder(url)), lambda url: sqlite.inspected(_folder(url)))


def _folder(url: str) -> str:
    folder = url.removeprefix("sqlite:").removeprefix("//")
    if not folder:
        raise InvalidInput(f"store {url!r} names no folder; give sqlite:FOLDER")
    return folder


def _postgres() -> _Kind:
    try:
        from coldstream.storage import postgres
    except ImportError as error:
        message = f"store: PostgreSQL needs psycopg, which cannot be loaded ({error})"
        raise InvalidInput(f"{message}; pip install 'coldstream[service]'") from error
    return _Kind(postgres.PostgresStore, postgres.inspected)


_KINDS: dict[str, Callable[[], _Kind]] = {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
