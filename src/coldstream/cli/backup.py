"""`coldstream backup`: write everything that a service stores to one file, while the service runs."""

import argparse
from pathlib import Path
from typing import Any

from coldstream.cli.store_address import add_store, store_of
from coldstream.storage import backup_file, stores
from coldstream.support.files import check_writable


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser(
        "backup",
        description="Writes the log and its snapshots as they are at one moment, beside the service or without it. "
        "The file is there as a whole or not at all; `coldstream restore` makes a store of either kind from it.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the file to make")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    check_writable(args.file)
    with stores.exported(store_of(args)) as export:
        bounds, _, _, _, snapshots = backup_file.write(args.file, export)
    size = args.file.stat().st_size
    print(f"lines {bounds.cut + 1:,} to {bounds.last:,} and {len(snapshots)} snapshots in {args.file}, {size:,} bytes")
    return 0
