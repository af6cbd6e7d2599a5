"""What takes longer than a test: a thousand kills on both stores, fifty each while users and items have to go, while old
lines are deleted and while a backup is written, a hundred failovers between replicas, and a hundred thousand requests that
nobody should send, floods of costly ones while others wait; and before that, kernels with every access checked.

python tests/torture [--kills 1000] [--writing 50] [--evicting 50] [--upkeep 50] [--failovers 100] [--requests 100000]
                     [--floods 3]
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "end_to_end"), str(HERE.parent / "contracts")]

from checked_kernels import check_kernels  # noqa: E402
from failovers import failovers  # noqa: E402
from failovers import summary as failovers_summary  # noqa: E402
from floods import floods  # noqa: E402
from floods import summary as floods_summary  # noqa: E402
from fuzz import fuzz  # noqa: E402
from kills import Survived, campaign, while_writing  # noqa: E402
from served import POSTGRES, SQLITE  # noqa: E402
from test_durability import EVICTING  # noqa: E402
from upkeep_kills import campaign as upkeep_campaign  # noqa: E402

from postgres_server import PostgresServer  # noqa: E402


def main() -> None:
    """All of it, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000, help="of the service, half of them on each store")
    parser.add_argument(
        "--writing", type=int, default=50, help="kills while a full snapshot, and while an increment is written"
    )
    parser.add_argument("--evicting", type=int, default=50, help="kills on each store while users and items have to go")
    parser.add_argument(
        "--upkeep", type=int, default=50, help="kills on each store while lines are deleted, and as many more"
    )
    parser.add_argument("--failovers", type=int, default=100, help="between three replicas, for four reasons; needs root")
    parser.add_argument(
        "--reads", type=int, default=10_000, help="trials of reading at a replica what was written at another"
    )
    parser.add_argument("--kernels", type=int, default=1, help="0 to leave out the kernels with every access checked")
    parser.add_argument("--requests", type=int, default=100_000, help="that are damaged or odd")
    parser.add_argument("--floods", type=float, default=3.0, help="seconds of each flood of costly requests")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn at random")
    args = parser.parse_args()
    say = lambda text: print(text, flush=True)  # noqa: E731
    summary = []
    if args.kernels:
        check_kernels()
        summary.append("no kernel reads or writes out of bounds")
    if args.requests:
        done = fuzz(args.requests, args.seed, say)
        statuses = ", ".join(f"{count:,} × {status or 'closed'}" for status, count in done.statuses.items())
        summary.append(f"{done.requests:,} odd requests in {done.seconds:,.0f} s: {statuses}")
        summary.append(f"  memory grew by {done.grown / 2**20:.0f} MiB; the log replays to the same bits")
    if args.floods:
        summary += floods_summary(floods(args.floods, 20_000, say))
    if args.kills or args.writing or args.evicting:
        half, survived = args.kills // 2, list[tuple[str, Survived]]()
        server = PostgresServer()
        try:
            for kind, kills, url in (
                (SQLITE, half, lambda folder: f"{SQLITE}:{folder / 'data'}"),
                (POSTGRES, args.kills - half, lambda _: server.new_schema()),
            ):
                if args.writing:
                    survived.append(
                        (f"{kind}, while files were written", while_writing(kind, args.writing, args.seed, url, say))
                    )
                if args.evicting:
                    own = campaign(kind, args.evicting, args.seed, url, say, EVICTING)
                    survived.append((f"{kind}, while users and items had to go", own))
                if kills:
                    survived.append((kind, campaign(kind, kills, args.seed, url, say)))
        finally:
            server.remove()
        for what, own in survived:
            summary.append(
                f"{what}: {own.kills:,} kills, {own.events:,} acknowledged events in {own.seconds:,.0f} s:"
                " nothing lost, nothing twice, no bit different"
            )
    if args.upkeep:
        server = PostgresServer()
        try:
            urls = {SQLITE: lambda folder: f"{SQLITE}:{folder / 'data'}", POSTGRES: lambda _: server.new_schema()}
            for kind, url in urls.items():
                outcomes = upkeep_campaign(url, args.upkeep, args.seed, say, kind)
                for what, outcome in zip(("deleting old lines", "writing backups"), outcomes, strict=True):
                    summary.append(
                        f"{kind}: {outcome.rounds} kills while {what}, {outcome.interrupted} before it was finished, in "
                        f"{outcome.seconds:,.0f} s: nothing lost, nothing twice, no bit different"
                    )
        finally:
            server.remove()
    if args.failovers:
        summary += failovers_summary(failovers(args.failovers, args.reads, args.seed, say))
    print("\n" + "\n".join(summary))


if __name__ == "__main__":
    main()
