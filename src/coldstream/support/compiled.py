"""How kernels are compiled: once, cached on disk, without the interpreter lock."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from coldstream.support.code_cache import cached

Function = TypeVar("Function", bound=Callable[..., Any])

_FAST = {"reassoc", "contract", "nsz"}
_EXACT = False
# Both are always said: where nothing is, a function takes on what the first caller has that makes it compile, and keeps it
# for all others. What learning adds up would then depend on whether a request came before the first event.


def kernel(function: Function) -> Function:
    """Compile with IEEE arithmetic in the order written: what learns gives the same bits wherever it runs."""
    return cast(Function, _compiled(function, _EXACT))


def scan_kernel(function: Function) -> Function:
    """Compile with reordered sums: what only reads may trade the last bit for vector instructions."""
    return cast(Function, _compiled(function, _FAST))


def inlined(function: Function) -> Function:
    """A part of a kernel. Inlined, because a call that hands over a hundred array fields costs more than the loop."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", forceinline=True, fastmath=_EXACT)(function))


def unchecked_entry(function: Function) -> Function:
    """The same kernel for hot callers in Python that always pass the same types.

    Finding out the types of nested tuples of arrays takes longer than most kernels run. This asks once, at the first call,
    and jumps to the machine code from then on; what it is handed must be our own arrays, never a caller's.
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
    """The same function, whose cached code counts as stale when any source that kernels are made of has changed.

    Numba asks only whether the function's own file has changed, and would go on using old code of an inlined callee.
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
