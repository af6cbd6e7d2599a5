"""Ten thousand times, under load: does a user find what was acknowledged a moment ago, where others learn on Ray?

python tests/torture/ray_writes.py --trials 10000 --learners 2
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))
os.environ.update({"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": "/tmp"})

from own_writes import put_items, unread
from served import Home


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--learners", type=int, default=2)
    parser.add_argument("--customers", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder), f"sqlite:{folder}/data")
        with home.serve("--engine", "ray", "--learners", args.learners) as server:
            put_items(server.ready())
            started = monotonic()
            missed = unread(server, args.trials, args.customers)
            seconds = monotonic() - started
            server.terminate()
        print(f"{args.trials} trials in {seconds:.0f} s: {len(missed)} did not find what they had written", *missed[:10])
        print(home.verify())
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
