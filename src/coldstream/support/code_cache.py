"""Where machine code is kept from one run to the next.

Numba keeps it in `NUMBA_CACHE_DIR`, beside the sources or in the user's home, whichever can be written first. Where none
can, it is kept in a folder of the user's own among the temporary files; and where that cannot be had either, nowhere.
Reading the cache runs what is in it, so a folder that others could write to is not used.
"""

import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba

_REMEDY = "set NUMBA_CACHE_DIR to a folder that can be written"
_said = False


def cached(compile_: Callable[..., Any]) -> Any:
    """What `compile_(cache=…)` makes, with the best cache there is."""
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
    """A folder among the temporary files that nobody else can write to; None where there is none."""
    try:
        folder = Path(tempfile.gettempdir()) / f"coldstream-machine-code-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        if own:
            tempfile.TemporaryFile(dir=folder).close()
    except (AttributeError, OSError):  # a system without users, or without a place for temporary files
        return None
    return folder if own else None


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Only for what is compiled meanwhile: other users of Numba in this process have settings of their own."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _say(message: str) -> None:
    """Once, for all the kernels there are."""
    global _said
    if not _said:
        _said = True
        warnings.warn(message, RuntimeWarning, stacklevel=2)
