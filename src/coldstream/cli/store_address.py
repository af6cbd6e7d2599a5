"""The options that name the store of a service."""

import argparse
from pathlib import Path

from coldstream.errors import InvalidInput


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the options for the location of the store: a folder or a database."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="the service's folder")
    parser.add_argument("--store", metavar="URL", help="the service's database, postgresql://…")


def store_of(args: argparse.Namespace) -> str:
    """Return the address of the store that the options name."""
    if (args.data is None) == (args.store is None):
        raise InvalidInput("give either --data DIR or --store URL")
    return f"sqlite:{args.data}" if args.store is None else str(args.store)
