"""Fetching a data set from its publisher: whole and checked, or not at all."""

import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from coldstream.errors import InvalidInput, Unavailable, shown

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Told of a download: the file, its bytes so far, and how many there will be where the server says."""

CHUNK = 1 << 16
PATIENCE = 30.0
"""Seconds to wait for a server that says nothing."""


class Source(NamedTuple):
    """Where a publisher keeps a data set: files at an address, or an archive there that holds them."""

    address: str
    files: Mapping[str, str | None]
    """Every file needed, with its md5 where the bytes must be the known ones."""
    archive: str | None = None
    """A zip file whose folder of the same name holds the files; without one they lie at the address themselves."""
    edition: str = ""
    """Which edition the known files are of, where the publisher's change."""

    def downloads(self) -> list[str]:
        """The addresses to download from."""
        return [f"{self.address}/{name}" for name in ([self.archive] if self.archive else self.files)]

    def by_hand(self, folder: Path) -> str:
        """What to put where without this module's help."""
        opened = "unpack it, " if self.archive else ""
        edition = f" ({self.edition})" if self.edition else ""
        return f"download {' and '.join(self.downloads())}, {opened}and put {', '.join(self.files)} into {folder}{edition}"

    def flaw(self, folder: Path) -> str | None:
        """What is wrong with the files in a folder, if anything: one is missing, or is not the known one."""
        for name, known in self.files.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if known is not None and (found := _md5(folder / name)) != known:
                return f"{name} has md5 {found}, the known one {known}: it is damaged or of another edition"
        return None


def silent(name: str, received: int, total: int | None) -> None:
    """A progress that nobody watches."""


def fetched(source: Source, folder: Path, progress: Progress = silent) -> Path:
    """The folder, with the source's files in it. At any moment it is whole or not there."""
    if folder.exists():
        raise Unavailable(f"{folder.name}: there is already a folder {folder}; remove it and fetch again")
    if not source.address.startswith(("https://", "http://")):
        raise InvalidInput(f"address must start with https:// or http://, got {shown(source.address)}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as work:
            fresh = Path(work) / folder.name
            fresh.mkdir()
            for address in source.downloads():
                _download(address, (Path(work) if source.archive else fresh) / address.rpartition("/")[2], progress)
            if source.archive:
                _unpack(Path(work) / source.archive, fresh, source)
            if flaw := source.flaw(fresh):
                raise OSError(flaw)
            fresh.rename(folder)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        raise Unavailable(f"{folder.name} cannot be fetched ({error}); {source.by_hand(folder)}") from error
    return folder


def _download(address: str, path: Path, progress: Progress) -> None:
    request = Request(address, headers={"User-Agent": "coldstream"})  # noqa: S310 - the scheme was checked
    with urlopen(request, timeout=PATIENCE) as response, open(path, "wb") as file:  # noqa: S310
        total, received = response.length, 0
        progress(path.name, received, total)
        while chunk := response.read(CHUNK):
            received += file.write(chunk)
            progress(path.name, received, total)
        os.fsync(file.fileno())
    # A connection that ends early is not an error to http.client when it is read in chunks.
    if total is not None and received != total:
        raise OSError(f"{address} ended after {received} of {total} bytes")


def _unpack(archive: Path, folder: Path, source: Source) -> None:
    """Only what is asked for is unpacked, under names of our own, so an archive cannot write anywhere else."""
    try:
        with zipfile.ZipFile(archive) as members:
            for name in source.files:
                with members.open(f"{archive.stem}/{name}") as member, open(folder / name, "wb") as file:
                    shutil.copyfileobj(member, file)
                    file.flush()
                    os.fsync(file.fileno())
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
        raise OSError(f"{archive.name} is not the archive it should be: {error}") from error


def _md5(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
