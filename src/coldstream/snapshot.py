"""Named arrays and one JSON document in one file: a NumPy archive, never pickle.

The archive carries a checksum of every member. A file is written beside its place, synced, and renamed, so at any moment
the path holds a whole snapshot or none.
"""

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.errors import InvalidSnapshot
from coldstream.files import atomic

FORMAT, VERSION = "coldstream-snapshot", 3

# What NumPy, zipfile and zlib raise for a file that is not what it should be.
NOT_WHAT_IT_SHOULD_BE = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What restoring raises where a document or an array is of another kind than the code that reads it expects."""

_DAMAGED = (
    *NOT_WHAT_IT_SHOULD_BE,
    EOFError,
    MemoryError,
    OSError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def write_snapshot(path: str | Path, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a snapshot so that a crash at any moment leaves the old file or the new one."""
    header = {"format": FORMAT, "version": VERSION, "document": document}
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    with atomic(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, __header__=np.frombuffer(text, np.uint8), **arrays)


def read_snapshot(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The document and the arrays of a snapshot; every checksum is verified."""
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            members = {name: archive[name] for name in archive.files}
            header = json.loads(members.pop("__header__").tobytes())
    except FileNotFoundError:
        raise InvalidSnapshot(f"snapshot {str(path)!r}: no such file; give the path that save() wrote") from None
    except _DAMAGED as error:
        message = f"snapshot {str(path)!r} is damaged or not a coldstream snapshot ({error}); use an older one"
        raise InvalidSnapshot(message) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidSnapshot(f"snapshot {str(path)!r} was not written by coldstream; give the path that save() wrote")
    if header.get("version") != VERSION:
        found = header.get("version")
        raise InvalidSnapshot(f"snapshot {str(path)!r} has version {found}, this release reads {VERSION}; use its release")
    return header["document"], members
