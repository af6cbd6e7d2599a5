"""A trial: one mutant, in a copy of the tree, against the tests that should notice it.

A mutant is code that nobody wrote, so it gets limits: of memory, of time per test and in all, of the size of its files. What
it started is ended with it, also what began a session of its own.
"""

import ctypes
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from imports import dependents
from mutations import Mutation

MEMORY = 12 * 2**30
"""Bytes of address space that a mutant may have."""
LARGEST_FILE = 2**30
CPU_SECONDS = 900
"""Of one process: what runs in circles is ended by what it uses, so that a busy machine makes no mutant fail."""
SECONDS_PER_TEST = 1200
"""A test that takes longer than this waits for what does not come."""
SECONDS = 3600
NEAREST = 4
"""Tests that a mutant meets before the others are even loaded: most are noticed by one of them, and loading takes longer."""
MOST_UNRELIABLE = 5
"""Tests that may fail without a mutation, because a machine is busy; more say that something is wrong here."""
_SUBREAPER = 36  # prctl: orphans of what we start become ours, so that they can be ended

KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
_LEFT_BEHIND = (".git", ".venv", "__pycache__", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache")


class Outcome(NamedTuple):
    """What became of a mutant, and which test it was."""

    verdict: str
    by: str
    seconds: float


class Workshop:
    """A copy of the tree in a folder of its own, in which one file at a time is another. Its caches are kept."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.tree = folder / "tree"
        """The copy."""
        self._folder, self._known = folder, folder / "machine-code"
        shutil.rmtree(self.tree, ignore_errors=True)
        shutil.copytree(root, self.tree, ignore=shutil.ignore_patterns(*_LEFT_BEHIND, folder.name))
        (folder / "tmp").mkdir(exist_ok=True)
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        self._pin_the_stamp()
        self._witnesses: set[str] = set()
        self._unreliable: set[str] = set()

    def _pin_the_stamp(self) -> None:
        """Let cached machine code hold although another source has changed: whether it does is decided here."""
        file, sources = self.tree / "src/coldstream/support/compiled.py", sorted((self.tree / "src").rglob("*.py"))
        digest = hashlib.blake2b(b"".join(path.read_bytes() for path in sources), digest_size=16).hexdigest()
        stamp, source = "_SOURCES = _digest_of_sources()", file.read_text()
        if source.count(stamp) != 1:
            raise SystemExit(f"{file} has no line {stamp!r} to pin; change _pin_the_stamp with it")
        file.write_text(source.replace(stamp, f'_SOURCES = "{digest}"'))

    def trial(self, mutation: Mutation, tests: list[str], seconds: float = SECONDS) -> Outcome:
        """The tests on a mutant. A test that fails without the mutation too is no witness of it, and is asked no more.

        Less time than `SECONDS` is for a first look: what was not noticed until then counts as survived.
        """
        file = self.tree / mutation.path
        source = file.read_text()
        while True:
            with self._cache(mutation) as cache:
                try:
                    file.write_text(mutation.applied(source))
                    outcome = self._met(tests, cache, seconds)
                finally:
                    file.write_text(source)
            witness = outcome.by.partition(" ")[2]
            if outcome.verdict != KILLED or not witness or witness in self._witnesses:
                return outcome
            if self._run([witness], self._known).verdict == SURVIVED:
                self._witnesses.add(witness)
                return outcome
            if len(self._unreliable) == MOST_UNRELIABLE:
                raise SystemExit(f"{witness} fails without a mutation too, and so do {sorted(self._unreliable)}")
            print(f"{witness} fails without a mutation too, and is asked no more", flush=True)
            self._unreliable.add(witness)

    @contextmanager
    def _cache(self, mutation: Mutation) -> Iterator[Path]:
        """Machine code that may be used: all that is known, or what the mutated file is no part of."""
        if not mutation.compiled:
            yield self._known
            return
        passing = self._folder / "passing-cache"
        try:
            _take_along(self._known, passing, dependents(self.tree / "src", mutation.path.removeprefix("src/")))
            yield passing
        finally:
            shutil.rmtree(passing, ignore_errors=True)

    def _met(self, tests: list[str], cache: Path, limit: float) -> Outcome:
        """What becomes of a mutant that meets the nearest tests, and then the others."""
        began, outcome = time.monotonic(), Outcome(SURVIVED, "", 0.0)
        nearest = list(
            takewhile(lambda test: test.endswith(".py"), tests[:NEAREST])
        )  # of a folder, pytest has its own order
        for some in filter(None, (nearest, tests[len(nearest) :])):
            if outcome.verdict == SURVIVED and not outcome.by:  # time is left
                outcome = self._run(some, cache, limit, began)
        return outcome

    def _run(self, tests: list[str], cache: Path, limit: float = SECONDS, began: float | None = None) -> Outcome:
        """Some tests, of which all together have so much time from a moment on."""
        began = time.monotonic() if began is None else began
        longest = min(SECONDS_PER_TEST, limit / 4)  # a test that waits for ever has noticed, also at a first look
        stop = ["-o", f"faulthandler_timeout={longest}", "-o", "faulthandler_exit_on_timeout=true"]
        quiet = ["-x", "-rfE", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
        without = [f"--deselect={one}" for one in sorted(self._unreliable)]
        environment = os.environ | {
            "PYTHONPATH": str(self.tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(cache),
            "TMPDIR": str(self._folder / "tmp"),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *quiet, *stop, *without, *tests],
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
            said, _ = process.communicate(timeout=max(1.0, limit - (time.monotonic() - began)))
            code = process.returncode
        except subprocess.TimeoutExpired:
            said, code = "", None
        finally:
            _end_all()
            _empty(self._folder / "tmp")
        seconds = time.monotonic() - began
        if code is None and limit < SECONDS:
            return Outcome(SURVIVED, f"not noticed within {limit:.0f} s", seconds)
        if code == 4 and "ImportError while loading conftest" in said:
            return Outcome(KILLED, "import", seconds)  # nothing begins with it, not even the tests
        if code in (4, 5):  # what pytest says where it was asked wrongly
            raise SystemExit(f"pytest could not run {' '.join(tests)}:\n{said}")
        if code in _FROM_OUTSIDE:  # none of our limits does that: somebody else, or the system for want of memory
            raise SystemExit("the tests were killed from outside, which says nothing of the mutant; start again to go on")
        if code in (None, -signal.SIGXCPU) or "Timeout (" in said:
            return Outcome(TIMED_OUT, "", seconds)
        failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return Outcome(KILLED if code else SURVIVED, failed[0].split(" - ")[0] if failed else "", seconds)


def _take_along(known: Path, passing: Path, stale: set[str]) -> None:
    """Machine code of files of the package that are not stale, from one cache to another.

    Numba keeps code in `folder_digest/file.function-line…`, in a folder for each folder of sources.
    """
    shutil.rmtree(passing, ignore_errors=True)
    for path in known.glob("*/*") if known.exists() else ():
        folder, file = path.parent.name.rpartition("_")[0], path.name.partition(".")[0]
        source = f"coldstream/{folder}/{file}.py"
        if (known.parent / "tree/src" / source).exists() and source not in stale:
            (passing / path.parent.name).mkdir(parents=True, exist_ok=True)
            os.link(path, passing / path.parent.name / path.name)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
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
