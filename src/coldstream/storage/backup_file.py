"""The file format of backups: one file from which a store of any kind can be restored.

A backup is a ZIP archive. The archive has a CRC per member, besides the checksums of the log lines:

backup.json     the format, the bounds of the log, its marks, and the positions of the snapshots
kept            the records kept of deleted lines, as frames
log             the rows of the log, as frames
snapshot.1, …   the snapshots, the oldest first

A frame is the length of its payload in four bytes, and then up to `PAGE` rows in MessagePack.
"""

import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from coldstream.errors import InvalidInput, StoreDamaged, StoreUnavailable
from coldstream.storage.checksums import Bounds, Row, check_bounds, check_row, sealed
from coldstream.storage.export import Contents, Export
from coldstream.storage.log_pages import PAGE
from coldstream.storage.store import LogLine, Saved
from coldstream.support.files import private

FORMAT, VERSION = "coldstream-backup", 1

_LENGTH = struct.Struct("<I")
_END, _END_MARK = struct.Struct("<4s16sH"), b"PK\5\6"
"""The end record of a ZIP archive: a signature, the location of the member list, and the length of its comment (here 0)."""
_NOT_WHOLE = (zipfile.BadZipFile, zlib.error, msgspec.MsgspecError, struct.error, EOFError, KeyError, StoreDamaged)

Item = TypeVar("Item")


class _Manifest(msgspec.Struct, frozen=True):
    format: str
    version: int
    bounds: Bounds
    seal: int
    begins: int
    rows: int
    kept: int
    marks: list[tuple[int, float]]
    snapshots: list[int]


def write(path: Path, export: Export) -> Contents:
    """Write a backup atomically, and return the contents of the export.

    Raises `InvalidInput` if the path exists, and `StoreUnavailable` if the file cannot be written.
    """
    if path.exists():
        raise InvalidInput(f"backup {str(path)!r} is there already; give the path of a file that is to be made")
    contents = export.contents
    with private(path) as temporary:
        try:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                rows = _write_frames(archive, "log", export.rows())
                kept = _write_frames(archive, "kept", contents.kept)
                for number, saved in enumerate(reversed(contents.snapshots), 1):
                    member = zipfile.ZipInfo(f"snapshot.{number}")
                    with (
                        export.opened(saved) as source,
                        source.open("rb") as content,
                        archive.open(member, "w", force_zip64=True) as written,
                    ):
                        shutil.copyfileobj(content, written, 2**20)
                positions = [saved.position for saved in reversed(contents.snapshots)]
                bounds = contents.bounds
                manifest = _Manifest(
                    FORMAT, VERSION, bounds, sealed(bounds), contents.begins, rows, kept, contents.marks, positions
                )
                archive.writestr("backup.json", msgspec.json.encode(manifest))
        except OSError as error:
            raise StoreUnavailable(f"backup {str(path)!r} cannot be written ({error}); make room, and try again") from error
    return contents


@contextmanager
def read(path: Path) -> Iterator["Backup"]:
    """Open a backup as a context manager.

    Raises `InvalidInput` if the file cannot be read or is damaged. Damage further inside the file is found only while the
    block reads it, and is raised from the block as `InvalidInput` too.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            _check_extent(file, archive)
            yield Backup(archive)
    except OSError as error:
        raise InvalidInput(f"backup {str(path)!r} cannot be read ({error.strerror or error}); give another path") from error
    except _NOT_WHOLE as error:
        raise InvalidInput(f"backup {str(path)!r} is damaged, or none of coldstream ({error}); use another one") from error


class Backup:
    """An export that is read from a backup file. Everything is verified against its checksums while it is read."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        manifest = msgspec.json.decode(archive.read("backup.json"), type=_Manifest)
        if (manifest.format, manifest.version) != (FORMAT, VERSION):
            raise StoreDamaged(f"it has format {manifest.format} {manifest.version}, this release reads {FORMAT} {VERSION}")
        bounds = check_bounds(Bounds(*manifest.bounds), manifest.seal)
        saved = [Saved(number, position) for number, position in enumerate(manifest.snapshots, 1)]
        kept = [LogLine(body, user) for body, user, *_ in _read_frames(archive, "kept", manifest.kept)]
        self.contents = Contents(bounds, manifest.begins, kept, manifest.marks, saved[::-1])
        self._rows = manifest.rows
        expected = {"backup.json", "kept", "log", *(f"snapshot.{number}" for number, _ in saved)}
        if sorted(archive.namelist()) != sorted(expected):
            raise StoreDamaged("its members are not those that its backup.json names")

    def rows(self) -> Iterator[Row]:
        after, before = self.contents.bounds.cut, self.contents.begins
        for row in (Row(*row) for row in _read_frames(self._archive, "log", self._rows)):
            check_row(row, after, before)
            after, before = row.position, row.checksum
            yield row
        if (after, before) != (self.contents.bounds.last, self.contents.bounds.checksum):
            raise StoreDamaged(f"its log ends at line {after}, and should at line {self.contents.bounds.last}")

    @contextmanager
    def opened(self, saved: Saved, /) -> Iterator[Path]:
        with tempfile.NamedTemporaryFile() as file, self._archive.open(f"snapshot.{saved.number}") as read:
            shutil.copyfileobj(read, file, 2**20)
            file.flush()
            yield Path(file.name)


def _check_extent(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Raise `StoreDamaged` for bytes before the first member or after the end of the archive, which `zipfile` ignores."""
    file.seek(-_END.size, os.SEEK_END)
    mark, *_, comment = _END.unpack(file.read(_END.size))
    begins = min((member.header_offset for member in archive.infolist()), default=0)
    if mark != _END_MARK or comment or begins:
        raise StoreDamaged("it has bytes before its beginning or behind its end that no backup has")


def _write_frames(archive: zipfile.ZipFile, name: str, items: Iterable[Item]) -> int:
    """Write items to a member of the archive, and return their number."""
    count, given = 0, iter(items)
    with archive.open(name, "w", force_zip64=True) as file:
        while some := list(islice(given, PAGE)):
            frame = msgspec.msgpack.encode(some)
            file.write(_LENGTH.pack(len(frame)) + frame)
            count += len(some)
    return count


def _read_frames(archive: zipfile.ZipFile, name: str, count: int) -> Iterator[list[Any]]:
    with archive.open(name) as file:
        while head := file.read(_LENGTH.size):
            # A truncated frame is invalid MessagePack, so msgspec raises an error.
            items = msgspec.msgpack.decode(file.read(_LENGTH.unpack(head)[0]), type=list[list[Any]])
            count -= len(items)
            yield from items
    if count:
        raise StoreDamaged(f"its member {name} does not have as many lines as it should")
