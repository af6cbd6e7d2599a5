"""API keys and their scopes. Their file holds only hashes, so that reading it gives no access."""

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
"""read: recommend, explain, inspect. write: events, items, users. admin: delete, snapshot. No scope includes another."""

_HEADING = "# API keys of coldstream, written by `coldstream keys`, which keeps no comments but this.\n"


class Key(NamedTuple):
    """An API key: its name, its scopes, and its hash."""

    name: str
    scopes: tuple[str, ...]
    hash: str


def drawn() -> str:
    """Return a new random key of 256 bits, as its owner presents it."""
    return "cs_" + secrets.token_urlsafe(32)


def hashed(presented: str) -> str:
    """Return the hash of a key, as the file holds it.

    >>> hashed("cs_example")[:20]
    'sha256:6185e4f07fecb'
    """
    # A slow hash protects passwords that can be guessed. 256 random bits cannot, and a slow hash would delay requests.
    return "sha256:" + sha256(presented.encode("utf-8", "surrogatepass")).hexdigest()


class Keys:
    """A collection of keys with distinct names and distinct hashes."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = tuple(keys)
        _check_distinct(self._keys)

    @classmethod
    def read(cls, path: str | Path) -> "Keys":
        """Read the keys in a file.

        Raises `InvalidInput` for a file that cannot be read, or that other users may write to: they could add a key.
        """
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
        """Replace a file atomically. A new file is private to its owner; an old one keeps its owner and mode."""
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
        """Return the key that is presented; None if it is unknown. The time this takes tells nothing about the keys."""
        presented_hash, found = hashed(presented), None
        for key in self._keys:
            if hmac.compare_digest(key.hash, presented_hash):
                found = key
        return found

    def with_(self, key: Key) -> "Keys":
        """Return these keys and one more. Raises `InvalidInput` if its name or hash is there already."""
        return Keys((*self._keys, key))

    def without(self, name: str) -> "Keys":
        """Return these keys without one. Raises `InvalidInput` if there is none of that name."""
        if name not in [key.name for key in self._keys]:
            known = ", ".join(key.name for key in self._keys) or "none"
            raise InvalidInput(f"key {shown(name)} is not there; there are {known}")
        return Keys(key for key in self._keys if key.name != name)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class KeyFile:
    """Keys in a file, which is read again when it has changed. If that fails, the keys stay as they were."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self._keys = Keys.read(path)

    def find(self, presented: str) -> Key | None:
        """Return the key that is presented, if the file has it now; None otherwise."""
        if _stamp(self._path) != self._stamp:
            self.reread()
        return self._keys.find(presented)

    def reread(self) -> None:
        """Read the file again, even if it does not seem to have changed."""
        self._stamp = _stamp(self._path)
        try:
            self._keys = Keys.read(self._path)
        except InvalidInput as error:
            log.error("keys could not be reread, and stay as they were", extra={"detail": str(error)})
        else:
            log.info("keys were reread", extra={"names": [key.name for key in self._keys]})


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return a stamp that changes when a file is written or replaced; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def checked_key(name: object, scopes: object, hash_: object, where: str) -> Key:
    """Validate the parts of a key and return it. Raises `InvalidInput`, which names the place `where`."""
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
    """Say only the type of a value: by mistake it may be a key itself, which no log should show."""
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
