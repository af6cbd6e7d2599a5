"""The stores that contracts are tested on, each on the real database."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstream.storage import stores
from coldstream.storage.store import LogLine, Store

if TYPE_CHECKING:
    from postgres_server import PostgresServer

SQLITE, POSTGRES = "sqlite", "postgresql"


@pytest.fixture(params=[SQLITE, POSTGRES])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Addresses at which there is nothing yet."""
    if request.param == SQLITE:
        return lambda: f"sqlite:{tempfile.mkdtemp(dir=tmp_path)}/data"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_schema


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(stores.opened(url)) as store:
        yield store


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes a finished snapshot file."""

    def write(content: bytes) -> Path:
        path = tmp_path / "finished"
        path.write_bytes(content)
        return path

    return write


def appended(store: Store, lines: list[LogLine]) -> list[int | None]:
    """Append to a log whatever it has."""
    return store.append(lines, store.last())


def numbers(*bodies: int) -> list[LogLine]:
    return [LogLine(b"%d" % body) for body in bodies]
