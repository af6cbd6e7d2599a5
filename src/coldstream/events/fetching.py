"""Download a data set from its publisher, completely and verified, or not at all."""

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
"""Callback for progress: file name, bytes received so far, and total bytes or None if the server does not tell."""

CHUNK = 1 << 16
PATIENCE = 30.0
"""Timeout of a read from the server, in seconds."""


class Source(NamedTuple):
    """Where a data set is published: files at an address, or an archive that holds them."""

    address: str
    files: Mapping[str, str | None]
    """Required files, with the md5 of each whose content is checked."""
    archive: str | None = None
    """Name of a zip file with a folder of the same name that holds the files; None if the files are at the address
    themselves."""
    edition: str = ""
    """Description of the known edition, if the publisher's files change."""

    def downloads(self) -> list[str]:
        """Return the addresses to download."""
        return [f"{self.address}/{name}" for name in ([self.archive] if self.archive else self.files)]

    def by_hand(self, folder: Path) -> str:
        """Return instructions for downloading the files by hand."""
        opened = "unpack it, " if self.archive else ""
        edition = f" ({self.edition})" if self.edition else ""
        return f"download {' and '.join(self.downloads())}, {opened}and put {', '.join(self.files)} into {folder}{edition}"

    def flaw(self, folder: Path) -> str | None:
        """Return why the files in a folder are not the known ones, or None if they are."""
        for name, known in self.files.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if known is not None and (found := _md5(folder / name)) != known:
                return f"{name} has md5 {found}, the known one {known}: it is damaged or of another edition"
        return None


def silent(name: str, received: int, total: int | None) -> None:
    """Ignore progress."""


def fetched(source: Source, folder: Path, progress: Progress = silent) -> Path:
    """Download the files of a source into a new folder, and return it. The folder appears complete or not at all.

    Raise `Unavailable` if the folder exists, the download fails or the files are not the known ones.
    """
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
            error.close()  # an HTTPError keeps its connection open
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
    # When reading in chunks, http.client does not raise if the connection ends early.
    if total is not None and received != total:
        raise OSError(f"{address} ended after {received} of {total} bytes")


def _unpack(archive: Path, folder: Path, source: Source) -> None:
    """Unpack only the required files, under names from the source, so that an archive cannot write anywhere else."""
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
