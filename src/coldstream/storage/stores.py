"""Selection of a store by its address: `sqlite:FOLDER` or `postgresql://USER@HOST/DATABASE`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from coldstream.errors import InvalidInput
from coldstream.errors import shown as quoted
from coldstream.storage.export import Export
from coldstream.storage.sharing import Shared
from coldstream.storage.shown import ShownList, ShownStore
from coldstream.storage.store import Store
from coldstream.storage.view import View


class _Kind(NamedTuple):
    opened: Callable[[str], Store]
    inspected: Callable[[str], View]
    exported: Callable[[str], AbstractContextManager[Export]]
    filled: Callable[[str, Export], None]
    shown: Callable[[str], ShownStore]
    read_shown: Callable[[str], Iterator[ShownList]]
    shared: Callable[[str], Shared] | None = None


def opened(url: str) -> Store:
    """Open the store at an address for writing, creating it if there is none.

    No other process can write until it is closed.
    """
    return _kind(url).opened(url)


def shared(url: str) -> Shared | None:
    """Return the constructors for a store that several processes share; None if its kind supports only one process."""
    share = _kind(url).shared
    return None if share is None else share(url)


def shown(url: str) -> ShownStore:
    """Open the store of shown lists beside the store at an address."""
    return _kind(url).shown(url)


def read_shown(url: str) -> Iterator[ShownList]:
    """Yield the shown lists kept beside the store at an address, while another process may write to it."""
    return _kind(url).read_shown(url)


def inspected(url: str) -> View:
    """Open a read-only view of the store at an address, while another process may write to it."""
    return _kind(url).inspected(url)


def exported(url: str) -> AbstractContextManager[Export]:
    """Open a consistent export of the store at an address, as a context manager, while another process may write to it."""
    return _kind(url).exported(url)


def filled(url: str, export: Export) -> None:
    """Create a store at an address that has none, atomically, from an export of another store."""
    _kind(url).filled(url, export)


def _kind(url: str) -> _Kind:
    prefix = url.partition(":")[0]  # the rest may hold a password
    if prefix not in _KINDS or prefix == url:
        known = "sqlite:FOLDER or postgresql://USER@HOST/DATABASE"
        raise InvalidInput(f"store: there is no kind {quoted(prefix)}; give {known}")
    return _KINDS[prefix]()


def _sqlite() -> _Kind:
    from coldstream.storage.sqlite import export as sqlite_export
    from coldstream.storage.sqlite import shown as sqlite_shown
    from coldstream.storage.sqlite import store as sqlite

    return _Kind(
        lambda url: sqlite.SqliteStore(_folder(url)),
        lambda url: sqlite.inspected(_folder(url)),
        lambda url: sqlite_export.exported(_folder(url)),
        lambda url, export: sqlite_export.filled(_folder(url), export),
        lambda url: sqlite_shown.SqliteShown(_folder(url)),
        lambda url: sqlite_shown.read(_folder(url)),
    )


def _folder(url: str) -> str:
    folder = url.removeprefix("sqlite:").removeprefix("//")
    if not folder:
        raise InvalidInput(f"store {url!r} names no folder; give sqlite:FOLDER")
    return folder


def _postgres() -> _Kind:
    try:
        from coldstream.storage.postgres import export as postgres_export
        from coldstream.storage.postgres import sharing as postgres_sharing
        from coldstream.storage.postgres import shown as postgres_shown
        from coldstream.storage.postgres import store as postgres
    except ImportError as error:
        message = f"store: PostgreSQL needs psycopg, which cannot be loaded ({error})"
        raise InvalidInput(f"{message}; pip install 'coldstream[service]'") from error
    return _Kind(
        postgres.PostgresStore,
        postgres.inspected,
        postgres_export.exported,
        postgres_export.filled,
        postgres_shown.PostgresShown,
        postgres_shown.read,
        postgres_sharing.shared,
    )


_KINDS: dict[str, Callable[[], _Kind]] = {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
