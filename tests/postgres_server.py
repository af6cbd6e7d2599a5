"""A PostgreSQL server of the tests' own, on a loopback port, with all its files in one folder that goes with it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from ports import free_port

REMEDY = "install Debian's package postgresql (as root, `make postgres` does), or put initdb and pg_ctl on the PATH"


class PostgresServer:
    """A server that can be stopped and started again. It syncs to disk like a real one."""

    addresses = "127.0.0.1"
    """Where it listens, joined by commas."""

    def __init__(self) -> None:
        self._bin = binaries()
        self._folder = Path(tempfile.mkdtemp(prefix="coldstream-postgres-", dir="/tmp"))
        if os.geteuid() == 0:  # PostgreSQL does not run as root
            shutil.chown(self._folder, "nobody")
        self._schemas = count(1)
        try:
            self._run("initdb", "--auth=trust", "--username=coldstream", "--encoding=UTF8", "--locale=C", self._data)
            self.start()
        except BaseException:
            shutil.rmtree(self._folder)
            raise

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    @property
    def url(self) -> str:
        """The address of the server itself, for its administrator."""
        return f"postgresql://coldstream@127.0.0.1:{self._port}/postgres"

    def new_schema(self) -> str:
        """The address of an empty schema. A database for each would make starting after a crash slow."""
        name = f"store{next(self._schemas)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}?options=-csearch_path%3D{name}"

    def start(self) -> None:
        """Start it; after a stop, on the port that it had."""
        self._port = getattr(self, "_port", None) or free_port()
        settings = f"-c listen_addresses={self.addresses} -c port={self._port} -c unix_socket_directories={self._folder}"
        settings += " -c max_connections=30 -c shared_buffers=32MB"
        self._run("pg_ctl", "-w", "-t", "60", "-D", self._data, "-l", str(self._folder / "log"), "-o", settings, "start")

    def stop(self) -> None:
        """Stop it as a crash would: nothing is said to clients, and nothing is written."""
        self._run("pg_ctl", "-w", "-D", self._data, "-m", "immediate", "stop")

    def end_sessions(self) -> None:
        """End every connection, as an administrator may."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            connection.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}")

    def remove(self) -> None:
        """Stop it for good."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "nobody", "--", *command]
        with open(self._folder / "output", "a+b") as output:  # a pipe would stay open as long as the server
            done = subprocess.run(command, cwd=self._folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
            if done.returncode:
                output.seek(0)
                said = output.read().decode(errors="replace")
                log = self._folder / "log"
                said += log.read_text() if log.exists() else ""
                pytest.fail(f"{program} failed:\n{said[-2000:]}")


def binaries() -> Path:
    """The folder with the server's programs."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    if config := shutil.which("pg_config"):
        candidates.append(Path(subprocess.run([config, "--bindir"], capture_output=True, text=True).stdout.strip()))
    if initdb := shutil.which("initdb"):
        candidates.append(Path(initdb).resolve().parent)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    return pytest.fail(f"no PostgreSQL server: {REMEDY}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server, one for each test process."""
    server = PostgresServer()
    yield server
    server.remove()
