"""`coldstream verify`: replay a service's log and compare it with its snapshots."""

import argparse
import os
import sys
from contextlib import closing
from typing import Any

from coldstream.cli.running_service import KEY
from coldstream.cli.store_address import add_store, store_of
from coldstream.client import Client, Retries, ServiceError, ServiceUnavailable
from coldstream.cluster.team import HIRE_HERE
from coldstream.errors import StoreDamaged, Unavailable
from coldstream.runtime.verification import Held, Verdict, verified
from coldstream.storage import stores

DIFFERENT = 1
"""Exit status if the log is damaged, or a snapshot or replica differs from the replayed log."""
TIMEOUT = 600.0
"""Seconds to wait until a replica has computed its fingerprint."""


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser(
        "verify",
        description="Changes nothing, and may run beside the service. Exits with 1 where anything differs.",
    )
    add_store(parser)
    parser.add_argument("--recent", action="store_true", help="begin at the oldest snapshot, not at the first line")
    parser.add_argument(
        "--replica",
        action="append",
        default=[],
        metavar="URL",
        help=f"a running service on the same store, to be compared too; its key, scope admin, in ${KEY}",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with closing(stores.inspected(store_of(args))) as store:
        replicas = [_held_by(url) for url in args.replica]
        try:
            verdict = verified(store, args.recent, _tell if sys.stderr.isatty() else lambda _: None, replicas, HIRE_HERE)
        except StoreDamaged as error:
            print(f"the log is NOT whole: {error}")
            return DIFFERENT
    _show(verdict)
    return DIFFERENT if verdict.different or any(wrong for _, wrong in verdict.held) else 0


def _held_by(url: str) -> Held:
    """Ask a running replica for its log position and its fingerprint."""
    try:
        with Client(url, key=os.environ.get(KEY), timeout=TIMEOUT, retries=Retries(most=3)) as client:
            answer = client.fingerprint()
    except ServiceError as error:
        key = f"; set {KEY} to one with the scope admin" if error.status in (401, 403) else ""
        raise Unavailable(f"replica {url} answers {error}{key}") from error
    except ServiceUnavailable as error:
        raise Unavailable(f"replica {url} cannot be asked ({error}); is it a service that is ready?") from error
    return Held(url, answer.position, answer.fingerprint)


def _tell(done: int) -> None:
    print(f"\rreplayed {done:,} lines", end="", file=sys.stderr, flush=True)


def _show(verdict: Verdict) -> None:
    print(f"replayed {verdict.replayed:,} lines, behind line {verdict.base:,} up to line {verdict.last:,}; checksums agree")
    if verdict.cut:
        print(f"lines up to {verdict.cut:,} were deleted because they were old: checksums were compared behind them")
    for saved in verdict.same:
        print(f"snapshot {saved.number} of line {saved.position:,}: the same, bit by bit")
    for saved, reason in verdict.different:
        print(f"snapshot {saved.number} of line {saved.position:,}: NOT the same: {reason}")
    for one, wrong in verdict.held:
        print(
            f"replica {one.name} at line {one.position:,}: "
            + (f"NOT the same: {wrong}" if wrong else "the same, bit by bit")
        )
    if not verdict.same and not verdict.different:
        print("there is no snapshot to compare with yet; the log itself can be replayed")
