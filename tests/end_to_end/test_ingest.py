"""Events from NATS, Kafka and an outbox: each is learned once, whoever is killed."""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from brokers import KafkaCluster, NatsServer
from served import PATIENCE, Home, Served, wait_until

from coldstream.cli import main
from coldstream.client import AsyncClient, NewEvent, Retries, ServiceUnavailable
from coldstream.errors import InvalidInput
from coldstream.ingest.ingestion import DeadLetters, Ingestion, event_of
from coldstream.ingest.outbox_source import TABLE
from coldstream.ingest.source import Message, source_of
from replicas import Cluster

if TYPE_CHECKING:
    from postgres_server import PostgresServer

MESSAGES = 60

pytest_plugins = ["postgres_server"]


def bodies(name: str, count: int = MESSAGES) -> list[bytes]:
    return [json.dumps({"user": f"{name}{n}", "item": f"i{n % 7}"}).encode() for n in range(count)]


def learned(home: Home, name: str) -> list[str]:
    """The users of a source in the log, in its order."""
    return [line["user"] for line in home.lines().values() if str(line.get("user", "")).startswith(name)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("ingest")
    return Home(folder, f"sqlite:{folder / 'data'}")


@pytest.fixture(scope="module")
def served(home: Home) -> Iterator[Served]:
    with home.serve() as server:
        yield server.ready()


@pytest.fixture
def url(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


def started(source: str, url: str, dead: Path, *more: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "coldstream", "ingest", "--from", source, "--to", url, "--dead", str(dead)]
    return subprocess.Popen([*command, "--batch", "10", *map(str, more)], stderr=subprocess.PIPE, text=True, env=os.environ)


def ended(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said


async def drained(source: str, url: str, dead: Path, count: int) -> Ingestion:
    """All messages that a source has, taken in this process."""
    async with AsyncClient(url, timeout=PATIENCE, retries=Retries(most=3)) as client:
        made = source_of(source)
        ingestion, stop = Ingestion(made, client, DeadLetters(dead), 50), asyncio.Event()
        running = asyncio.create_task(ingestion.run(stop))
        for _ in range(4800):
            if sum(ingestion.counts) >= count:
                break
            await asyncio.sleep(0.05)
        waiting = await made.lag()
        stop.set()
        await running
        assert waiting in (0, None), waiting
        return ingestion


def test_kafka_by_its_mock_cluster_with_dead_letters(url: str, home: Home, tmp_path: Path) -> None:
    cluster = KafkaCluster()
    bad = [b"no json", b'{"user": "x"}', b'{"user": "bad", "item": "i", "context": {"device": {"a": 1}}}']
    wrong = b'{"user": "bad", "item": "i", "context": {"device": ["a", "list"]}}'
    cluster.publish("purchases", [*bodies("kafka"), *bad, wrong])
    # The mock lets whoever joins a group that was left wait for a session's time, 45 s unless it is told otherwise.
    session = "session.timeout.ms=6000&heartbeat.interval.ms=500"
    source, dead = f"kafka://{cluster.address}/purchases?group=shop&{session}", tmp_path / "dead.jsonl"
    ingestion = asyncio.run(drained(source, url, dead, MESSAGES + 4))
    assert ingestion.counts == (MESSAGES, 0, 4)
    assert sorted(learned(home, "kafka")) == sorted(f"kafka{n}" for n in range(MESSAGES))
    letters = [json.loads(line) for line in dead.read_text().splitlines()]
    assert {letter["body"].encode() for letter in letters} == {*bad, wrong}
    assert all(letter["id"].startswith("kafka:purchases:") and letter["reason"] for letter in letters)
    assert "device" in next(letter["reason"] for letter in letters if letter["body"].encode() == wrong)
    cluster.publish("purchases", bodies("more", 5))
    assert asyncio.run(drained(source, url, dead, 5)).counts == (5, 0, 0)  # the group went on where it was
    again = asyncio.run(drained(f"kafka://{cluster.address}/purchases?group=other&{session}", url, dead, MESSAGES + 9))
    assert again.counts == (0, MESSAGES + 5, 4)  # all of it once more: nothing is learned twice


def test_an_outbox_in_postgresql_is_emptied(url: str, home: Home, tmp_path: Path, postgres: "PostgresServer") -> None:
    store = postgres.new_schema()
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute(TABLE.format("shop_outbox"))
        for body in bodies("outbox", 30):
            connection.execute("INSERT INTO shop_outbox (body) VALUES (%s::jsonb)", (body.decode(),))
        mark = "&" if "?" in store else "?"
        ingestion = asyncio.run(drained(f"{store}{mark}table=shop_outbox", url, tmp_path / "dead.jsonl", 30))
        assert ingestion.counts == (30, 0, 0)
        assert connection.execute("SELECT count(*) FROM shop_outbox").fetchone() == (0,)
    assert learned(home, "outbox") == [f"outbox{n}" for n in range(30)]


def test_nats_while_the_reader_and_the_broker_are_killed(url: str, home: Home, tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as server:
        server.publish("SHOP", bodies("nats"))
        source, dead = f"{server.url}/SHOP?durable=reader&ack_seconds=2", tmp_path / "dead.jsonl"
        for few in (10, 30):
            process = started(source, url, dead)
            wait_until(lambda few=few: len(learned(home, "nats")) >= few)
            process.kill()
            process.communicate()
        server.kill()
        process = started(source, url, dead, "--metrics-port", 0)
        server.start()
        wait_until(lambda: len(set(learned(home, "nats"))) == MESSAGES)
        ended(process)
    assert sorted(learned(home, "nats")) == sorted(f"nats{n}" for n in range(MESSAGES))
    assert not dead.exists()


def test_lag_is_told(url: str, tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as server:
        server.publish("LAG", bodies("lag", 5))
        process = started(f"{server.url}/LAG", url, tmp_path / "dead.jsonl", "--metrics-port", 0)
        address = told_address(process)

        def told() -> str:
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                return str(answer.read().decode())

        wait_until(lambda: 'coldstream_ingest_learned_total{source="nats:LAG"} 5.0' in told())
        wait_until(lambda: 'coldstream_ingest_lag_messages{source="nats:LAG"} 0.0' in told())
        taken = started(f"{server.url}/LAG", url, tmp_path / "dead.jsonl", "--metrics-port", urlsplit(address).port)
        _, said = taken.communicate(timeout=PATIENCE)
        assert taken.returncode == 2
        assert f"--metrics-port {urlsplit(address).port}: cannot listen there" in said
        assert "choose another, or leave it out" in said
        assert "Traceback" not in said
        ended(process)


def told_address(process: "subprocess.Popen[str]") -> str:
    """Where a reader's metrics are, as it says."""
    assert process.stderr is not None
    for line in process.stderr:
        entry = json.loads(line)
        if entry["event"] == "metrics":
            return str(entry["address"])
    raise AssertionError("it has ended")


def test_the_service_reads_by_itself_and_each_message_once_whoever_is_killed(tmp_path: Path) -> None:
    home = Home(tmp_path, f"sqlite:{tmp_path / 'data'}")
    with NatsServer(tmp_path / "nats") as server:
        server.publish("SHOP", [*bodies("own"), b"no json"])
        flags = ("--ingest", f"{server.url}/SHOP?ack_seconds=2", "--ingest-batch", 10)
        with home.serve(*flags) as served:
            served.ready()
            wait_until(lambda: len(learned(home, "own")) >= 10)
            served.kill()
        with home.serve(*flags) as served:
            client = served.ready().client()
            wait_until(lambda: len(set(learned(home, "own"))) == MESSAGES)

            def told(what: str) -> bool:
                return what.encode() in client.ask("GET", "/metrics").body

            wait_until(lambda: told('coldstream_ingest_lag_messages{source="nats:SHOP"} 0.0'))
            server.kill()
            server.start()  # the broker, too
            server.publish("SHOP", bodies("later", 5))
            wait_until(lambda: len(learned(home, "later")) == 5)
            wait_until(lambda: told('coldstream_ingest_learned_total{source="nats:SHOP"}'))
            assert served.terminate() == 0
    assert sorted(learned(home, "own")) == sorted(f"own{n}" for n in range(MESSAGES))
    (letter,) = set((home.data / "dead-letters.jsonl").read_text().splitlines())
    assert json.loads(letter)["body"] == "no json"


def test_of_several_replicas_the_one_that_writes_reads(tmp_path: Path, postgres: "PostgresServer") -> None:
    home = Home(tmp_path, postgres.new_schema())
    with NatsServer(tmp_path / "nats") as server:
        server.publish("SHOP", bodies("first", 20))
        calm = ("--failover-seconds", 120)  # or the other may begin to write only because the machine is busy
        cluster = Cluster(home, *calm, "--ingest", f"{server.url}/SHOP", "--ingest-dead", tmp_path / "dead.jsonl")
        try:
            one, two = cluster.add(), cluster.add()
            wait_until(lambda: len(learned(home, "first")) == 20)
            wait_until(lambda: b"coldstream_ingest_lag_messages{" in one.client().ask("GET", "/metrics").body)
            assert cluster.writer() is one
            assert not two.log("reading")
            assert b"coldstream_ingest_lag_messages{" not in two.client().ask("GET", "/metrics").body
            assert one.terminate() == 0  # which lets the other write
            server.publish("SHOP", bodies("second", 20))
            wait_until(lambda: len(learned(home, "second")) == 20)
            assert two.log("reading")
            assert two.terminate() == 0
        finally:
            cluster.close()
    assert sorted(learned(home, "first")) == sorted(f"first{n}" for n in range(20))
    assert sorted(learned(home, "second")) == sorted(f"second{n}" for n in range(20))


class Away:
    """A service that does not answer."""

    async def learn(self, events: Iterable[NewEvent], *, source: str | None = None) -> Any:
        raise ServiceUnavailable("503")


def test_a_reader_that_waits_for_the_service_can_be_stopped(tmp_path: Path) -> None:
    async def take() -> None:
        ingestion, stop = (
            Ingestion(source_of("nats://127.0.0.1:9/X"), Away(), DeadLetters(tmp_path / "dead")),
            asyncio.Event(),
        )
        asyncio.get_running_loop().call_later(0.1, stop.set)
        await ingestion.take([Message("1", b'{"user": "u", "item": "i"}', None)], stop)
        assert sum(ingestion.counts) == 0

    asyncio.run(asyncio.wait_for(take(), PATIENCE))


def test_an_event_has_the_name_of_its_message_or_its_own() -> None:
    own = b'{"user": "u", "item": "i", "event_id": "order-1"}'
    assert event_of(Message("nats:SHOP:7", b'{"user": "u", "item": "i"}', None)).event_id == "nats:SHOP:7"
    assert event_of(Message("nats:SHOP:7", own, None)).event_id == "order-1"


def test_an_event_that_claims_the_id_of_a_message_becomes_a_dead_letter() -> None:
    claims = b'{"user": "u", "item": "i", "event_id": "nats:SHOP:7"}'
    with pytest.raises(ValueError, match="got 'nats:SHOP:7'; choose an id with another prefix, or leave it out"):
        event_of(Message("nats:SHOP:8:x", claims, None))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("redis://x", "the address of a source must begin with one of nats://"),
        ("nats://127.0.0.1:4222", "the address of a source must name a stream, as in nats://127.0.0.1:4222/SHOP"),
        ("nats://127.0.0.1:4222/SHOP?ack_seconds=soon", "ack_seconds must be a number from 0.1 to 86400, got 'soon'"),
        ("kafka://127.0.0.1:9092/a/b", "the address of a source must name a topic"),
    ],
)
def test_addresses_that_say_too_little(address: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        source_of(address)


def test_a_service_without_a_folder_needs_a_place_for_dead_letters(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--store", "postgresql://127.0.0.1:9/none", "--ingest", "nats://127.0.0.1:9/X"]
    assert main(["serve", *flags]) == 2
    assert "ingest_dead is missing; with ingest and a store, give a file" in capsys.readouterr().err
    assert main(["serve", *flags[:3], "redis://x", "--ingest-dead", "dead.jsonl"]) == 2
    assert "the address of a source must begin with one of nats://" in capsys.readouterr().err


def test_a_key_that_may_not_write_ends_it_instead_of_making_dead_letters(tmp_path: Path) -> None:
    import httpx

    from coldstream.client import ServiceError

    transport = httpx.MockTransport(lambda _: httpx.Response(403, json={"detail": "the key has not the scope"}))

    async def take() -> Any:
        async with AsyncClient(transport=transport) as client:
            ingestion = Ingestion(source_of("nats://127.0.0.1:9/X"), client, DeadLetters(tmp_path / "dead.jsonl"))
            await ingestion.take([Message("1", b'{"user": "u", "item": "i"}', None)], asyncio.Event())

    with pytest.raises(ServiceError, match="403"):
        asyncio.run(take())
    assert not (tmp_path / "dead.jsonl").exists()
