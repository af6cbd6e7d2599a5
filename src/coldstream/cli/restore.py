"""`coldstream restore`: create a store from a backup."""

import argparse
from pathlib import Path
from typing import Any

from coldstream.cli.store_address import add_store, store_of
from coldstream.storage import backup_file, stores


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser(
        "restore",
        description="Makes a store where there is none, in SQLite or in PostgreSQL, whatever the backup was made of. "
        "A damaged backup is refused, and nothing is left of it. `coldstream verify` compares what was restored.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="what `coldstream backup` wrote")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    url = store_of(args)
    with backup_file.read(args.file) as backup:
        stores.filled(url, backup)
        bounds, _, _, _, snapshots = backup.contents
    print(f"lines {bounds.cut + 1:,} to {bounds.last:,} and {len(snapshots)} snapshots were restored")
    return 0
