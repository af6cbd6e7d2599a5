"""The snapshot archive: named arrays and one JSON document in one file, a NumPy archive without pickle.

The archive carries a checksum of every member. A file is written under another name, synced, and renamed, so at any moment
the path holds a whole snapshot or none. Members are stored uncompressed, so a file never unpacks to more than its own size.
"""

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.errors import InvalidSnapshot
from coldstream.support.files import private
from coldstream.support.ragged import document_of

FORMAT, VERSION = "coldstream-snapshot", 5

NOT_WHAT_IT_SHOULD_BE = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""Exceptions that restoring raises where a document or an array is of another kind than its reader expects."""

_PART = 2**20
"""Bytes of a file read at once."""
_LENGTHS_AT, _LENGTHS = 26, Struct("<HH")
"""Offset and form of the lengths of a member's name and extra field, after which its content begins."""
_LONGEST_HEADER = 2**16
"""Bytes within which an array's header ends: the longest that NumPy reads of these formats has 10,000."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def write_snapshot(path: str | Path, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a snapshot so that a crash at any moment leaves the old file or the new one. Only its owner may read it."""
    header = {"format": FORMAT, "version": VERSION, "document": document}
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    with private(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, __header__=np.frombuffer(text, np.uint8), **arrays)


def read_snapshot(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the document and the arrays of a snapshot after verifying every checksum, or raise `InvalidSnapshot`."""
    try:
        with open(path, "rb") as file:
            members = _members(file)
            header = document_of(members.pop("__header__").tobytes())
    except FileNotFoundError:
        raise InvalidSnapshot(f"snapshot {str(path)!r}: no such file; give the path that save() wrote") from None
    except Exception as error:  # a damaged byte may make any reader raise any error of its own
        message = f"snapshot {str(path)!r} is damaged or not a coldstream snapshot ({error}); use an older one"
        raise InvalidSnapshot(message) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidSnapshot(f"snapshot {str(path)!r} was not written by coldstream; give the path that save() wrote")
    if header.get("version") != VERSION:
        found = header.get("version")
        raise InvalidSnapshot(f"snapshot {str(path)!r} has version {found}, this release reads {VERSION}; use its release")
    if not isinstance(document := header.get("document"), dict):
        raise InvalidSnapshot(f"snapshot {str(path)!r} has no document; use an older one")
    return document, members


def _members(file: io.BufferedReader) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive. The declared sizes are checked against the file's before anything is read."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size for member in members):
            raise ValueError("a member is compressed, which none is that coldstream wrote")
        declared, size = sum(member.file_size for member in members), os.fstat(file.fileno()).st_size
        if declared > size:
            raise ValueError(f"its members are declared to hold {declared:,} bytes, and the file has {size:,}")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("two members have one name")
        # A member is read to its end first, where its checksum is compared, so only verified bytes are parsed.
        return {member.filename.removesuffix(".npy"): _array(_content(archive, file, member)) for member in members}


def _content(archive: zipfile.ZipFile, file: io.BufferedReader, member: zipfile.ZipInfo) -> bytearray:
    """Return all bytes of a member, in memory that an array can own."""
    archive.open(member).close()  # compares the member's own header with the directory's entry
    file.seek(member.header_offset + _LENGTHS_AT)
    file.seek(sum(_LENGTHS.unpack(file.read(_LENGTHS.size))), os.SEEK_CUR)
    content, first, checksum = bytearray(member.file_size), 0, 0
    with memoryview(content) as whole:
        while size := file.readinto(whole[first : first + _PART]):
            checksum = zlib.crc32(whole[first : first + size], checksum)
            first += size
    if first != len(content) or checksum != member.CRC:
        raise ValueError(f"{member.filename} has {first:,} bytes of {len(content):,}, or others than were written")
    return content


def _array(content: bytearray) -> NDArray[Any]:
    file = io.BytesIO(content[:_LONGEST_HEADER])
    shape, by_columns, kind = _HEADERS[np.lib.format.read_magic(file)](file)
    declared, held = math.prod(shape) * kind.itemsize, len(content) - file.tell()
    if kind.hasobject or not kind.itemsize or min(shape, default=0) < 0 or declared != held:
        raise ValueError(f"an array of {kind} and shape {shape} does not have {held:,} bytes")
    flat: NDArray[Any] = np.ndarray(math.prod(shape), kind, content, file.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")
