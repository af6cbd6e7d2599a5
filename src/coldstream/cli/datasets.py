"""`coldstream datasets list | path NAME | fetch NAME`."""

import argparse
from typing import Any

from coldstream.cli.screen import OUT, download_bar
from coldstream.events import datasets


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser("datasets")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("list", help="all of them, and where each was found").set_defaults(run=_list)
    for name, run, text in (
        ("path", _path, "the folder of one"),
        ("fetch", _fetch, "download one from its publisher, unless it is here, and check it"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name", metavar="NAME", choices=list(datasets.DATASETS), help=", ".join(datasets.DATASETS))
        action.set_defaults(run=run)


def _list(_: argparse.Namespace) -> int:
    for entry in datasets.listed():
        generated = isinstance(datasets.DATASETS[entry.name], datasets.Generated)
        place = "generated" if generated else f"in {entry.folder}" if entry.folder else "not here; fetch it"
        OUT.print(f"[bold]{entry.name:16}[/bold]{entry.summary}  [dim]{place}[/dim]", soft_wrap=True)
    return 0


def _path(args: argparse.Namespace) -> int:
    print(datasets.folder(args.name))
    return 0


def _fetch(args: argparse.Namespace) -> int:
    with download_bar() as progress:
        folder = datasets.fetch(args.name, progress)
    print(f"{args.name} is generated from a seed: there is nothing to fetch" if folder is None else folder)
    return 0
