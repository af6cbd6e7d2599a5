"""Brokers that are deleted, made again, doubled and restored from backups, while messages are read from them.

Two NATS servers have a stream of one name, two databases a table of one name, and two Kafka clusters a topic of one name.
All publish equal bodies at equal places, also after a stream was made again or restored. Every message has to be learned
once, or to be a dead letter.

python tests/torture/source_changes.py --messages 10000
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

sys.path[:0] = [str(Path(__file__).parents[1] / "end_to_end"), str(Path(__file__).parents[1])]
from brokers import KafkaCluster, NatsServer  # noqa: E402
from served import Home  # noqa: E402

from postgres_server import PostgresServer, binaries  # noqa: E402

PER_ROUND = 25
PATIENCE = 180.0
"""Seconds without a new line in the log until messages count as lost."""

TABLE = "CREATE TABLE coldstream_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body jsonb NOT NULL)"
SESSION = "session.timeout.ms=3000&heartbeat.interval.ms=500"


class Broker:
    """A broker, how many messages it has had since it was made, and the process that reads it."""

    kind: str
    changes: tuple[str, ...]
    address: str

    def __init__(self) -> None:
        self.had = self.backup_had = 0
        self.process: subprocess.Popen[bytes] | None = None

    def bodies(self) -> list[bytes]:
        """The next messages; the same ones after the broker was made again. The last claims the id of another message."""
        bodies = [{"user": f"{self.kind}-{n}", "item": f"i{n % 9}"} for n in range(self.had, self.had + PER_ROUND)]
        self.had += PER_ROUND
        claim = {"user": "refused", "item": "i", "event_id": f"{self.kind}:SHOP:{self.had}"}
        return [json.dumps(body).encode() for body in (*bodies, claim)]

    def read(self, port: int, dead: Path) -> None:
        """Start `coldstream ingest` in small batches; a reader that runs is killed."""
        self.kill_reader()
        command = [sys.executable, "-m", "coldstream", "ingest", "--from", self.address, "--batch", "7", "--dead", str(dead)]
        command += ["--to", f"http://127.0.0.1:{port}"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ)

    def kill_reader(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def publish(self) -> None:
        raise NotImplementedError

    def change(self, how: str) -> str:
        """Change the broker; what was done, which is a first backup where there is none to restore."""
        raise NotImplementedError

    def replay(self) -> None:
        """Have the next reader begin at the first message, where the broker keeps messages."""


class Nats(Broker):
    kind, changes = "nats", ("made again", "backed up", "restored", "killed")

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.server, self._backup = NatsServer(folder), folder.with_name(f"{folder.name}-backup")
        self.server.start()
        self.address = f"{self.server.url}/SHOP?ack_seconds=1"

    def publish(self) -> None:
        self.server.publish("SHOP", self.bodies())

    def change(self, how: str) -> str:
        if how == "made again":
            self.server.delete("SHOP")
            self.had = 0
        elif how == "backed up" or (how == "restored" and not self._backup.exists()):
            shutil.rmtree(self._backup, ignore_errors=True)
            self.server.back_up(self._backup)
            self.backup_had = self.had
            return "backed up"
        elif how == "restored":
            self.server.restore(self._backup)
            self.had = self.backup_had
        else:
            self.server.kill()
            self.server.start()
        return how

    def replay(self) -> None:
        self.address += "&durable=another"


class Outbox(Broker):
    kind, changes = "outbox", ("truncated", "made again", "backed up", "restored")

    def __init__(self, server: PostgresServer, name: str, folder: Path) -> None:
        super().__init__()
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        self.address = server.url.replace("/postgres", f"/{name}")
        self._backup = folder / f"{name}.sql"
        self._run(TABLE)

    def _run(self, *statements: Any) -> None:
        with psycopg.connect(self.address, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def publish(self) -> None:
        with psycopg.connect(self.address, autocommit=True) as connection:
            for body in self.bodies():
                connection.execute("INSERT INTO coldstream_outbox (body) VALUES (%s::jsonb)", (body.decode(),))

    def change(self, how: str) -> str:
        if how == "truncated":
            self._run("TRUNCATE coldstream_outbox RESTART IDENTITY")
            self.had = 0
        elif how == "made again":
            self._run("DROP TABLE coldstream_outbox")
            with psycopg.connect(self.address, autocommit=True) as connection:
                connection.execute(TABLE.replace("TABLE", "TABLE IF NOT EXISTS"))  # unless the reader was faster
            self.had = 0
        elif how == "backed up" or (how == "restored" and not self._backup.exists()):
            self._programs("pg_dump", "--clean", "--if-exists", "--table", "coldstream_outbox", "--file", str(self._backup))
            self.backup_had = self.had
            return "backed up"
        else:
            self._programs(
                "psql", "--single-transaction", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", str(self._backup)
            )
            self.had = self.backup_had
        return how

    def _programs(self, program: str, *arguments: str) -> None:
        command = [str(binaries() / program), "--dbname", self.address, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Kafka(Broker):
    """A mock cluster. It cannot delete a topic, so another cluster takes its place."""

    kind, changes = "kafka", ("made again",)

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def _begin(self) -> None:
        self.cluster = KafkaCluster()
        self.address = f"kafka://{self.cluster.address}/shop?{SESSION}"
        self.had = 0

    def publish(self) -> None:
        self.cluster.publish("shop", self.bodies())

    def change(self, how: str) -> str:
        self.kill_reader()
        self._begin()
        return how

    def replay(self) -> None:
        self.address += "&group=another"


class Run:
    """The brokers, the service, and what was published."""

    def __init__(self, folder: Path, seed: int, server: PostgresServer) -> None:
        self.rng, self.dead = random.Random(seed), folder / "dead.jsonl"
        self.brokers: list[Broker] = [Nats(folder / "nats-one"), Nats(folder / "nats-two"), Kafka(), Kafka()]
        self.brokers += [Outbox(server, name, folder) for name in ("one", "two")]
        self.published, self.refused, self.changes = Counter[str](), 0, Counter[str]()
        self.home = Home(folder, f"sqlite:{folder / 'data'}")

    def publish(self, broker: Broker) -> None:
        self.published.update(f"{broker.kind}-{n}" for n in range(broker.had, broker.had + PER_ROUND))
        self.refused += 1
        broker.publish()

    def learned(self) -> Counter[str]:
        """How often the user of each message stands in the log."""
        return Counter(line["user"] for line in self.home.lines().values() if "user" in line)

    def dead_letters(self) -> set[str]:
        """Ids of messages that were refused; a reader that is killed may write one twice."""
        lines = self.dead.read_text().splitlines() if self.dead.exists() else []
        return {json.loads(line)["id"] for line in lines}

    def wait(self) -> bool:
        """Wait until all is learned or refused; whether it was."""
        end, last = time.monotonic() + PATIENCE, (0, 0)
        while time.monotonic() < end:
            now = (self.learned().total(), len(self.dead_letters()))
            if now[0] >= self.published.total() and now[1] >= self.refused:
                return True
            if now != last:
                end, last = time.monotonic() + PATIENCE, now
            time.sleep(0.1)
        return False


def main() -> int:
    """As many messages as were asked for; 0 where each was learned once or refused."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    server, began = PostgresServer(), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(Path(scratch), args.seed, server)
        with run.home.serve() as service:
            port = service.ready().port
            try:
                whole = play(run, port, args.messages)
            finally:
                for broker in run.brokers:
                    broker.kill_reader()
                    if isinstance(broker, Nats):
                        broker.server.kill()
                server.remove()
        learned, dead = run.learned(), run.dead_letters()
        verified = run.home.verify()
    lost, twice = run.published - learned, learned - run.published
    print(f"{dict(run.changes)}, {time.monotonic() - began:.0f} s")
    print(f"{run.published.total()} messages: {lost.total()} lost, {twice.total()} learned twice")
    print(f"{run.refused} messages with a claimed id: {len(dead)} dead letters")
    print(verified.strip().splitlines()[-1])
    return int(bool(lost or twice or not whole or len(dead) != run.refused))


def play(run: Run, port: int, messages: int) -> bool:
    """Publish, kill readers and change brokers; then read all that is there once more. Whether nothing is missing."""
    for broker in run.brokers:
        broker.read(port, run.dead)
    rounds = 0
    while run.published.total() < messages:
        rounds += 1
        for broker in run.brokers:
            run.publish(broker)
        for broker in run.rng.sample(run.brokers[:2] + run.brokers[4:], 1):
            time.sleep(run.rng.uniform(0.0, 0.5))
            broker.read(port, run.dead)
            run.changes["readers killed"] += 1
        if not run.wait():
            return False
        for broker in run.brokers:
            rarely = 0.1 if isinstance(broker, Kafka) else 0.5
            if run.rng.random() < rarely:
                done = broker.change(run.rng.choice(broker.changes))
                run.changes[f"{broker.kind} {done}"] += 1
                if isinstance(broker, Kafka):
                    broker.read(port, run.dead)
        if rounds % 10 == 0:
            print(f"  {rounds} rounds, {run.published.total()} messages, {run.learned().total()} learned", flush=True)
    for broker in run.brokers:
        broker.replay()
        broker.read(port, run.dead)
    for broker in run.brokers:  # the last messages: when they are learned, all before them came again
        run.publish(broker)
    return run.wait()


if __name__ == "__main__":
    sys.exit(main())
