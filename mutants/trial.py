"""A trial: one mutant, in a copy of the tree, against the tests that should notice it.

A mutant is code that nobody wrote, so it gets limits: of memory, of time per test and in all, of the size of its files. What
it started is ended with it, also what began a session of its own.
"""

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mutations import Mutation

MEMORY = 12 * 2**30
"""Bytes of address space that a mutant may have."""
LARGEST_FILE = 2**30
SECONDS_PER_TEST = 240
"""A test that takes longer than this hangs; the first of a room may have to compile."""
SECONDS = 1500
_SUBREAPER = 36  # prctl: orphans of what we start become ours, so that they can be ended

KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
_LEFT_BEHIND = (".git", ".venv", "__pycache__", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache")


class Outcome(NamedTuple):
    """What became of a mutant, and which test it was."""

    verdict: str
    by: str
    seconds: float


class Workshop:
    """A copy of the tree in a folder of its own, in which one file at a time is another."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.tree, self._folder, self._known = folder / "tree", folder, folder / "known-cache"
        shutil.copytree(root, self.tree, ignore=shutil.ignore_patterns(*_LEFT_BEHIND), dirs_exist_ok=True)
        (folder / "tmp").mkdir(exist_ok=True)
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        self._pin_the_stamp()

    def _pin_the_stamp(self) -> None:
        """Let cached machine code hold although another source has changed: whether it does is decided here."""
        file = self.tree / "src/coldstream/model/compiled.py"
        stamp, pinned = "_SOURCES = _digest_of_sources()", '_SOURCES = "as it was"'
        source = file.read_text()
        if source.count(stamp) != 1:
            raise SystemExit(f"{file} has no line {stamp!r} to pin; change _pin_the_stamp with it")
        file.write_text(source.replace(stamp, pinned))

    def unchanged(self, tests: list[str]) -> Outcome:
        """The tests on the code as it is: they have to pass, or nothing can be said. It fills the cache too."""
        return self._run(tests, self._known)

    def trial(self, mutation: Mutation, tests: list[str]) -> Outcome:
        """The tests on a mutant."""
        file = self.tree / mutation.path
        source = file.read_text()
        with self._cache(mutation.compiled) as cache:
            try:
                file.write_text(mutation.applied(source))
                return self._run(tests, cache)
            finally:
                file.write_text(source)

    @contextmanager
    def _cache(self, compiled: bool) -> Iterator[Path]:
        if not compiled:
            yield self._known
            return
        passing = self._folder / "passing-cache"
        try:
            yield passing
        finally:
            shutil.rmtree(passing, ignore_errors=True)

    def _run(self, tests: list[str], cache: Path) -> Outcome:
        began = time.monotonic()
        stop = ["-o", f"faulthandler_timeout={SECONDS_PER_TEST}", "-o", "faulthandler_exit_on_timeout=true"]
        quiet = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
        environment = os.environ | {
            "PYTHONPATH": str(self.tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(cache),
            "TMPDIR": str(self._folder / "tmp"),
            "CI": "1",  # Hypothesis tries the same examples every time
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *quiet, *stop, *tests],
            cwd=self.tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_limit,
        )
        try:
            said, _ = process.communicate(timeout=SECONDS)
            code = process.returncode
        except subprocess.TimeoutExpired:
            said, code = "", None
        finally:
            _end_all()
            _empty(self._folder / "tmp")
        seconds = time.monotonic() - began
        if code in (4, 5):  # what pytest says where it was asked wrongly
            raise SystemExit(f"pytest could not run {' '.join(tests)}:\n{said}")
        if code is None or "Timeout (" in said:
            return Outcome(TIMED_OUT, "", seconds)
        failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return Outcome(KILLED if code else SURVIVED, failed[0].split(" - ")[0] if failed else said[-300:], seconds)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_all() -> None:
    """End all that a trial has started, which is all that descends from this process, and what its databases leave."""
    left: set[Path] = set()
    while descendants := _descendants(os.getpid()):
        for pid in descendants:
            with suppress(OSError):
                left.add(Path(os.readlink(f"/proc/{pid}/cwd")))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)
    for folder in left:  # a PostgreSQL server works in its data, in a folder that tests/postgres_server.py has made
        if folder.parent.name.startswith("coldstream-postgres-"):
            shutil.rmtree(folder.parent, ignore_errors=True)


def _descendants(pid: int) -> list[int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found, new = [], {pid}
    while new := {child for child, parent in parents.items() if parent in new}:
        found += sorted(new)
    return found


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
