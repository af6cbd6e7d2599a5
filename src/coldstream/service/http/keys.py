"""API keys: who may do what. The file holds hashes only, so that reading it lets nobody in."""

import hmac
import logging
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from coldstream.errors import InvalidInput, shown
from coldstream.support.files import private

log = logging.getLogger(__name__)

SCOPES = ("read", "write", "admin")
"""read: recommend, explain, look. write: events, items, users. admin: delete, snapshot. None includes another."""

_HEADING = "# API keys of coldstream, written by `coldstream keys`, which keeps no comments but this.\n"


class Key(NamedTuple):
    """Somebody's key: what it may do, and the hash it is known by."""

    name: str
    scopes: tuple[str, ...]
    hash: str


def drawn() -> str:
    """A new key, as its owner presents it. Nobody can guess it, and nobody will draw it again."""
    return "cs_" + secrets.token_urlsafe(32)


def hashed(presented: str) -> str:
    """The hash of a key, as the file holds it.

    >>> hashed("cs_example")[:20]
    'sha256:6185e4f07fecb'
    """
    # A slow hash protects words that can be guessed. A key is 256 random bits: nobody can try them, and requests would wait.
    return "sha256:" + sha256(presented.encode("utf-8", "surrogatepass")).hexdigest()


class Keys:
    """Some keys, each with a name and a hash of its own."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = tuple(keys)
        _check_distinct(self._keys)

    @classmethod
    def read(cls, path: str | Path) -> "Keys":
        """The keys in a file. One that others may write to is refused: they could let themselves in."""
        try:
            with Path(path).open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                document = tomllib.load(file)
        except (OSError, ValueError) as error:
            remedy = "`coldstream keys add` makes one"
            raise InvalidInput(f"keys {str(path)!r} cannot be read: {error}; {remedy}") from error
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InvalidInput(
                f"keys {str(path)!r} can be written to by others (mode {stat.S_IMODE(mode):04o}); run chmod go-w on it"
            )
        return cls(_entries(document, str(path)))

    def write(self, path: str | Path) -> None:
        """Replace the content of a file, all or nothing. A new one is its owner's alone, an old one stays whose it was."""
        text = _HEADING + "".join(_entry(key) for key in self._keys)
        try:
            old = os.stat(path) if os.path.exists(path) else None
            with private(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
                if old is not None:
                    os.chown(temporary, old.st_uid, old.st_gid)
                    temporary.chmod(stat.S_IMODE(old.st_mode))
        except OSError as error:
            raise InvalidInput(f"keys {str(path)!r} cannot be written: {error}; nothing was changed") from error

    def find(self, presented: str) -> Key | None:
        """The key that somebody presents, if it is one of these. The time it takes tells nothing about any of them."""
        presented_hash, found = hashed(presented), None
        for key in self._keys:
            if hmac.compare_digest(key.hash, presented_hash):
                found = key
        return found

    def with_(self, key: Key) -> "Keys":
        """These keys and one more."""
        return Keys((*self._keys, key))

    def without(self, name: str) -> "Keys":
        """These keys but one."""
        if name not in [key.name for key in self._keys]:
            known = ", ".join(key.name for key in self._keys) or "none"
            raise InvalidInput(f"key {shown(name)} is not there; there are {known}")
        return Keys(key for key in self._keys if key.name != name)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class KeyFile:
    """Keys in a file, which is reread when it has changed. A file that cannot be read leaves the keys as they were."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self._keys = Keys.read(path)

    def find(self, presented: str) -> Key | None:
        """The key that somebody presents, if the file has it now."""
        if _stamp(self._path) != self._stamp:
            self.reread()
        return self._keys.find(presented)

    def reread(self) -> None:
        """Read the file again, whether it seems to have changed or not."""
        self._stamp = _stamp(self._path)
        try:
            self._keys = Keys.read(self._path)
        except InvalidInput as error:
            log.error("keys could not be reread, and stay as they were", extra={"detail": str(error)})
        else:
            log.info("keys were reread", extra={"names": [key.name for key in self._keys]})


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What differs when a file has been written or replaced; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def checked_key(name: object, scopes: object, hash_: object, where: str) -> Key:
    """A key whose parts are what they should be."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise InvalidInput(f"{where}: name must be 1 to 64 letters, digits or any of . _ -, got {shown(name)}")
    if not isinstance(scopes, list) or not scopes or not all(scope in SCOPES for scope in scopes):
        raise InvalidInput(f"{where} ({name}): scopes must be a list of some of {', '.join(SCOPES)}, got {shown(scopes)}")
    if not isinstance(hash_, str) or not re.fullmatch(r"sha256:[0-9a-f]{64}", hash_):
        must = "sha256: and 64 lower-case hexadecimal digits, as `coldstream keys add` writes it"
        raise InvalidInput(f"{where} ({name}): hash must be {must}, got {_kept_secret(hash_)}")
    return Key(name, tuple(scope for scope in SCOPES if scope in scopes), hash_)


def _entries(document: dict[str, Any], path: str) -> Iterator[Key]:
    for name in document:
        if name != "key":
            raise InvalidInput(f"keys {path!r}: unknown entry {name!r}; every key is a [[key]]")
    entries = document.get("key", [])
    if not isinstance(entries, list):
        raise InvalidInput(f"keys {path!r}: key must be a list of tables, [[key]], got {_kept_secret(entries)}")
    for number, entry in enumerate(entries, 1):
        where = f"keys {path!r}, entry {number}"
        if not isinstance(entry, dict) or entry.keys() != {"name", "scopes", "hash"}:
            found = ", ".join(entry) if isinstance(entry, dict) else _kept_secret(entry)
            raise InvalidInput(f"{where}: must have name, scopes and hash, and nothing else, got {found}")
        yield checked_key(entry["name"], entry["scopes"], entry["hash"], where)


def _kept_secret(value: object) -> str:
    """Of which type a value is: it may be a key itself, by mistake, and no log should show one."""
    return f"a {type(value).__name__}"


def _check_distinct(keys: tuple[Key, ...]) -> None:
    names, hashes = set[str](), set[str]()
    for key in keys:
        if key.name in names:
            raise InvalidInput(f"key {key.name!r} is there twice; choose another name, or remove the other first")
        if key.hash in hashes:
            raise InvalidInput(f"key {key.name!r} has the hash of another, so its scopes are uncertain; remove one of them")
        names.add(key.name)
        hashes.add(key.hash)


def _entry(key: Key) -> str:
    scopes = ", ".join(f'"{scope}"' for scope in key.scopes)
    return f'\n[[key]]\nname = "{key.name}"\nscopes = [{scopes}]\nhash = "{key.hash}"\n'
