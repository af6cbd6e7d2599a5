"""`coldstream keys add NAME | list | remove NAME`."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from coldstream.service.keys import SCOPES, Keys, checked_key, drawn, hashed


def add_to(commands: Any) -> None:
    """Declare the command."""
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
    keys = Keys.read(args.keys) if os.path.exists(args.keys) else Keys()
    presented = drawn()
    scopes = [scope.strip() for scope in args.scopes.split(",")]
    keys.with_(checked_key(args.name, scopes, hashed(presented), "new key")).write(args.keys)
    print(presented)
    _note(f"this is the key of {args.name}; it is not shown again")
    return 0


def _list(args: argparse.Namespace) -> int:
    for key in Keys.read(args.keys):
        print(f"{key.name}\t{','.join(key.scopes)}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    Keys.read(args.keys).without(args.name).write(args.keys)
    _note(f"removed {args.name}")
    return 0


def _note(text: str) -> None:
    print(f"{text}. A service that is running goes by the keys it was started with.", file=sys.stderr)
