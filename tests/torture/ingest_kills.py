"""Kills between a broker and the log: of `coldstream ingest`, the service and NATS. Every message has to be learned once.

python tests/torture/ingest_kills.py --kills 100
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "end_to_end"), str(Path(__file__).parents[1])]
from brokers import NatsServer  # noqa: E402
from served import Home, Served  # noqa: E402

PER_ROUND = 30


def reader(server: NatsServer, port: int, folder: Path) -> "subprocess.Popen[bytes]":
    """`coldstream ingest` in small batches, so that it can be met between any two steps."""
    command = [sys.executable, "-m", "coldstream", "ingest", "--from", f"{server.url}/SHOP?durable=torture", "--batch", "3"]
    command += ["--to", f"http://127.0.0.1:{port}", "--dead", str(folder / "dead.jsonl")]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ)


def learned(home: Home) -> Counter[str]:
    """How often every message's user stands in the log."""
    return Counter(line["user"] for line in home.lines().values() if "user" in line)


def main() -> int:
    """As many kills as were asked for; 0 where every message was learned once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng, sent, killed = random.Random(args.seed), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as scratch, NatsServer(Path(scratch) / "nats") as server:
        folder = Path(scratch)
        home = Home(folder, f"sqlite:{folder / 'data'}")
        service: Served = home.serve().ready()
        process = reader(server, service.port, folder)
        while sum(killed.values()) < args.kills:
            bodies = [json.dumps({"user": f"u{n}", "item": f"i{n % 9}"}).encode() for n in range(sent, sent + PER_ROUND)]
            server.publish("SHOP", bodies)
            sent += PER_ROUND
            time.sleep(rng.uniform(0.0, 2.0))
            whom = rng.choices(["reader", "service", "broker"], [8, 1, 1])[0]
            killed[whom] += 1
            if whom == "broker":
                server.kill()
                server.start()
                continue
            if whom == "service":
                port = service.port
                service.__exit__(None, None, None)
                service = home.serve("--port", port).ready()
                continue
            process.kill()
            process.wait()
            process = reader(server, service.port, folder)
            if sum(killed.values()) % 10 == 0:
                print(f"  {sum(killed.values())} kills, {sent} messages, {len(learned(home))} learned", flush=True)
        end = time.monotonic() + 600
        while len(learned(home)) < sent and time.monotonic() < end:
            time.sleep(0.5)
        process.kill()
        process.wait()
        often = learned(home)
        service.__exit__(None, None, None)
        verified = home.verify()
        dead = (folder / "dead.jsonl").exists()
    twice = [user for user, count in often.items() if count > 1]
    lost = [f"u{n}" for n in range(sent) if f"u{n}" not in often]
    print(f"{sum(killed.values())} kills ({dict(killed)}), {sent} messages: {len(lost)} lost, {len(twice)} twice")
    print(f"dead letters: {dead}")
    print(verified.strip().splitlines()[-1])
    return int(bool(lost or twice or dead))


if __name__ == "__main__":
    sys.exit(main())
