"""Compilation of kernels with Numba: cached on disk, without the interpreter lock."""

import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

_REMEDY = "set NUMBA_CACHE_DIR to a folder that can be written"
_said = False


def cached(compile_: Callable[..., Any]) -> Any:
    """Return `compile_(cache=…)`, with the best cache available. Warn once if it is not the default one."""
    try:
        return compile_(cache=True)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    folder = _own_folder()
    if folder is None:
        _say(f"machine code cannot be kept anywhere: every start compiles it again, for about a minute; {_REMEDY}")
        return compile_(cache=False)
    _say(f"machine code is kept in {str(folder)!r}, because neither the installation nor the home can be written; {_REMEDY}")
    with _kept_in(folder):
        return compile_(cache=True)


def _own_folder() -> Path | None:
    """Return a folder for temporary files that only this user can access, or None if there is none."""
    try:
        folder = Path(tempfile.gettempdir()) / f"coldstream-machine-code-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        if own:
            tempfile.TemporaryFile(dir=folder).close()
    except (AttributeError, OSError):  # no user ids, or no place for temporary files
        return None
    return folder if own else None


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Set Numba's cache folder for the block only, because other users of Numba have their own settings."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _say(message: str) -> None:
    """Warn once, for all kernels."""
    global _said
    if not _said:
        _said = True
        warnings.warn(message, RuntimeWarning, stacklevel=2)


Function = TypeVar("Function", bound=Callable[..., Any])

_FAST = {"reassoc", "contract", "nsz"}
_EXACT = False
# Each kernel states one of the two. Without, Numba gives an inlined function the flags of its first caller, for all callers;
# the sums of learning would then depend on whether a request preceded the first event.
# for all others. What learning adds up would then depend on whether a request came before the first event.


def kernel(function: Function) -> Function:
    """Compile a kernel with IEEE arithmetic in the order written, so that learning gives the same bits on every machine."""
    return cast(Function, _compiled(function, _EXACT))


def scan_kernel(function: Function) -> Function:
    """Compile a kernel with reordered sums: code that only reads may trade the last bit for vector instructions."""
    return cast(Function, _compiled(function, _FAST))


def inlined(function: Function) -> Function:
    """Compile a part of a kernel. Inlined, because passing a hundred array fields costs more than the loop."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", forceinline=True, fastmath=_EXACT)(function))


def unchecked_entry(function: Function) -> Function:
    """Return a kernel wrapped for hot callers in Python that always pass the same types.

    Inferring the types of nested tuples of arrays takes longer than most kernels run. The wrapper does so at the first call,
    and then jumps to the machine code. So its arguments must be arrays of this package, never a user's.
    """
    entry: Any = None

    def call(*args: Any) -> Any:
        nonlocal entry
        if entry is not None:
            return entry(*args)
        result = function(*args)
        overloads = getattr(function, "overloads", {})
        if len(overloads) == 1:
            entry = next(iter(overloads.values())).entry_point
        return result

    return cast(Function, call)


def _compiled(function: Function, fastmath: object) -> Any:
    return _stamped(cached(partial(numba.njit, function, nogil=True, error_model="numpy", fastmath=fastmath)))


def _stamped(compiled: Any) -> Any:
    """Return the function, with cached code that becomes stale when any source of kernels changes.

    Numba alone compares the function's own file, and would keep using old code of an inlined callee.
    """
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = _SOURCES
    return compiled


def _digest_of_sources() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for package in ("baselines", "bounds", "catalogue", "engine", "features", "model", "scoring", "support"):
        root = Path(__file__).parents[1] / package
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _digest_of_sources()
