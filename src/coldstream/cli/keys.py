"""`coldstream keys add NAME | list | remove NAME`."""

import argparse
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coldstream.errors import InvalidInput
from coldstream.service.http.keys import SCOPES, Keys, checked_key, drawn, hashed


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser("keys")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    add = actions.add_parser("add", help="draw a new key and print it, this once; the file keeps only its hash")
    add.add_argument("--scopes", required=True, metavar="A,B", help=f"what it may do, any of {','.join(SCOPES)}")
    every = actions.add_parser("list", help="the names and scopes of all")
    remove = actions.add_parser("remove", help="shut one out")
    for action, run in ((add, _add), (every, _list), (remove, _remove)):
        if action is not every:
            action.add_argument("name", metavar="NAME", help="whose key it is")
        action.add_argument("--keys", required=True, type=Path, metavar="FILE.toml", help="the file of keys")
        action.set_defaults(run=run)


def _add(args: argparse.Namespace) -> int:
    presented = drawn()
    scopes = [scope.strip() for scope in args.scopes.split(",")]
    key = checked_key(args.name, scopes, hashed(presented), "new key")
    with _alone(args.keys):
        keys = Keys.read(args.keys) if os.path.exists(args.keys) else Keys()
        keys.with_(key).write(args.keys)
    print(presented)
    _note(f"this is the key of {args.name}; it is not shown again")
    return 0


def _list(args: argparse.Namespace) -> int:
    for key in Keys.read(args.keys):
        print(f"{key.name}\t{','.join(key.scopes)}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    with _alone(args.keys):
        Keys.read(args.keys).without(args.name).write(args.keys)
    _note(f"removed {args.name}")
    return 0


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock the file of keys exclusively. The lock is on its folder, because the file itself is replaced on each change."""
    try:
        folder = os.open(path.absolute().parent, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidInput(f"keys {str(path)!r} cannot be written: {error}; nothing was changed") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _note(text: str) -> None:
    print(f"{text}. A service that runs with this file goes by it from its next request on.", file=sys.stderr)
