"""Ids of messages: equal at every delivery, and different for messages that were at one place one after the other."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from brokers import KafkaCluster, NatsServer
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition, Uuid

from coldstream.client import NewEvent
from coldstream.errors import ColdstreamError
from coldstream.ingest.ingestion import DeadLetters, Ingestion
from coldstream.ingest.source import MAX_NAME_CHARS, SourceUnavailable, message_id, source_of
from coldstream.service.messages.core import Learned
from coldstream.service.messages.source_ids import source_kind

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytest_plugins = ["postgres_server"]

PATIENCE = 120.0
"""Seconds until a test gives up."""

EVENTS = [json.dumps({"user": f"u{n}", "item": "i"}).encode() for n in range(20)]
SESSION = "session.timeout.ms=3000&heartbeat.interval.ms=500"


class Log:
    """A service that learns every event id once."""

    def __init__(self) -> None:
        self.users: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.duplicates = 0

    async def learn(self, events: Iterable[NewEvent], *, source: str | None = None) -> Learned:
        learned = 0
        for event in events:
            assert event.event_id is not None
            assert source_kind(event.event_id) == source
            assert len(event.event_id) <= 256
            if event.event_id not in self.ids:
                self.ids.add(event.event_id)
                self.users[event.user] += 1
                learned += 1
            else:
                self.duplicates += 1
        return Learned(learned, 0, 0)


@contextmanager
def reading(address: str, log: Log, folder: Path) -> Iterator[None]:
    """Read a source in a thread, as `coldstream ingest` does."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    ingestion = Ingestion(source_of(address), log, DeadLetters(folder / "dead.jsonl"), 7)
    thread = threading.Thread(target=loop.run_until_complete, args=(ingestion.run(stop),))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        loop.close()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.05)


def all_learned(log: Log, times: int) -> Callable[[], bool]:
    return lambda: log.users == Counter({f"u{n}": times for n in range(20)})


# NATS


def test_a_stream_that_is_made_again_while_it_is_read_is_learned(tmp_path: Path) -> None:
    log = Log()
    with NatsServer(tmp_path / "nats") as server:
        server.publish("SHOP", EVENTS)
        with reading(f"{server.url}/SHOP", log, tmp_path):
            wait_for(all_learned(log, 1))
            server.delete("SHOP")
            server.publish("SHOP", EVENTS)
            wait_for(all_learned(log, 2))
        with reading(f"{server.url}/SHOP?durable=another", log, tmp_path):  # reads all of it once more
            wait_for(lambda: log.duplicates >= 20)
    assert all_learned(log, 2)()


def test_streams_of_one_name_on_two_servers_are_two_sources(tmp_path: Path) -> None:
    log = Log()
    with NatsServer(tmp_path / "one") as one, NatsServer(tmp_path / "two") as two:
        one.publish("SHOP", EVENTS)
        two.publish("SHOP", EVENTS)
        with reading(f"{one.url}/SHOP", log, tmp_path), reading(f"{two.url}/SHOP", log, tmp_path):
            wait_for(all_learned(log, 2))


def test_a_stream_restored_from_a_backup_uses_its_numbers_for_other_messages(tmp_path: Path) -> None:
    log = Log()
    with NatsServer(tmp_path / "nats") as server:
        server.publish("SHOP", EVENTS[:10])
        server.back_up(tmp_path / "backup")
        server.publish("SHOP", EVENTS[10:])
        with reading(f"{server.url}/SHOP", log, tmp_path):
            wait_for(all_learned(log, 1))
        server.restore(tmp_path / "backup")
        server.publish("SHOP", EVENTS[10:])
        with reading(f"{server.url}/SHOP", log, tmp_path):
            wait_for(lambda: log.users["u19"] == 2)
    assert log.users == Counter({f"u{n}": 1 if n < 10 else 2 for n in range(20)})
    assert log.duplicates == 10  # those of the backup came again


# Outbox


def inserted(connection: Any, events: Iterable[bytes], table: str = "coldstream_outbox") -> None:
    for event in events:
        connection.execute(f"INSERT INTO {table} (body) VALUES (%s::jsonb)", (event.decode(),))


def emptied(connection: Any, table: str = "coldstream_outbox") -> Callable[[], bool]:
    return lambda: connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


OLD_TABLE = "CREATE TABLE coldstream_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body jsonb NOT NULL)"


@pytest.fixture
def schema(postgres: "PostgresServer") -> str:
    return postgres.new_schema()


def test_rows_after_truncate_restart_identity_are_learned(tmp_path: Path, schema: str) -> None:
    log = Log()
    with psycopg.connect(schema, autocommit=True) as connection:
        connection.execute(OLD_TABLE)  # a table of an earlier release, which has no names for its rows
        inserted(connection, EVENTS)
        with reading(schema, log, tmp_path):
            wait_for(all_learned(log, 1))
            connection.execute("TRUNCATE coldstream_outbox RESTART IDENTITY")
            inserted(connection, EVENTS)
            wait_for(all_learned(log, 2))
            connection.execute("DROP TABLE coldstream_outbox")
            connection.execute(OLD_TABLE)
            inserted(connection, EVENTS)
            wait_for(all_learned(log, 3))
            wait_for(emptied(connection))


def test_outboxes_of_two_databases_are_two_sources(tmp_path: Path, postgres: "PostgresServer", schema: str) -> None:
    log, other = Log(), postgres.new_schema()
    with (
        psycopg.connect(schema, autocommit=True) as one,
        psycopg.connect(other, autocommit=True) as two,
        reading(schema, log, tmp_path),
        reading(other, log, tmp_path),
    ):
        for connection in (one, two):
            wait_for(lambda connection=connection: has_table(connection))
            inserted(connection, EVENTS)
        wait_for(all_learned(log, 2))


def has_table(connection: Any) -> bool:
    return bool(connection.execute("SELECT to_regclass('coldstream_outbox') IS NOT NULL").fetchone()[0])


def test_rows_restored_from_a_backup_are_known_and_rows_at_their_places_are_new(tmp_path: Path, schema: str) -> None:
    log = Log()
    with psycopg.connect(schema, autocommit=True) as connection:
        with reading(schema, log, tmp_path):
            wait_for(lambda: has_table(connection))
        inserted(connection, EVENTS[:10])
        connection.execute("CREATE TABLE backup AS SELECT * FROM coldstream_outbox")
        inserted(connection, EVENTS[10:])
        with reading(schema, log, tmp_path):
            wait_for(lambda: all_learned(log, 1)() and emptied(connection)())
        connection.execute("INSERT INTO coldstream_outbox OVERRIDING SYSTEM VALUE SELECT * FROM backup")
        connection.execute("ALTER TABLE coldstream_outbox ALTER id RESTART WITH 11")
        inserted(connection, EVENTS[10:])
        with reading(schema, log, tmp_path):
            wait_for(emptied(connection))
    assert log.users == Counter({f"u{n}": 1 if n < 10 else 2 for n in range(20)})
    assert log.duplicates == 10


def test_a_row_that_took_the_number_of_a_learned_row_is_not_deleted(schema: str) -> None:
    async def check(connection: Any) -> None:
        source = source_of(schema)
        await source.open()
        inserted(connection, EVENTS[:3])
        messages = await source.fetch(10, 0.1)
        connection.execute("TRUNCATE coldstream_outbox RESTART IDENTITY")
        inserted(connection, EVENTS[:3])
        await source.done(messages)
        assert [one.body for one in await source.fetch(10, 0.1)] == [one.body for one in messages]
        await source.done(await source.fetch(10, 0.1))
        assert await source.lag() == 0
        await source.close()

    with psycopg.connect(schema, autocommit=True) as connection:
        asyncio.run(check(connection))


def test_a_reader_that_may_not_change_the_table_says_which_statement_is_missing(
    schema: str, postgres: "PostgresServer"
) -> None:
    reader = schema.replace("coldstream@", "reader@")
    with psycopg.connect(schema, autocommit=True) as connection:
        ((name,),) = connection.execute("SELECT current_schema()").fetchall()
        connection.execute(OLD_TABLE)
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {name} TO reader")
        connection.execute("GRANT SELECT, DELETE ON coldstream_outbox TO reader")

        async def opened() -> None:
            source = source_of(reader)
            try:
                await source.open()
                await source.done(await source.fetch(10, 0.1))
            finally:
                await source.close()

        with pytest.raises(
            ColdstreamError, match='owner of the table run: ALTER TABLE "coldstream_outbox" ADD COLUMN'
        ) as said:
            asyncio.run(opened())
        connection.execute(str(said.value).rpartition("run: ")[2])
        asyncio.run(opened())  # it needs no right but these
        connection.execute(f"DROP OWNED BY reader; DROP ROLE reader; DROP SCHEMA {name} CASCADE")


def test_a_table_that_somebody_works_on_is_waited_for(schema: str) -> None:
    """Orders would queue behind a statement that waits for its lock."""
    with psycopg.connect(schema) as connection:
        connection.execute(OLD_TABLE)
        connection.commit()
        connection.execute("SELECT count(*) FROM coldstream_outbox")  # its lock is kept until the transaction ends
        source = source_of(schema)
        with pytest.raises(SourceUnavailable, match="lock timeout"):
            asyncio.run(source.open())
        asyncio.run(source.close())


# Kafka


def test_topics_of_one_name_on_two_clusters_are_two_sources(tmp_path: Path) -> None:
    one, two, log = KafkaCluster(), KafkaCluster(), Log()
    for cluster in (one, two):
        cluster.publish("shop", EVENTS)
    first, second = (f"kafka://{cluster.address}/shop?{SESSION}" for cluster in (one, two))
    with reading(first, log, tmp_path), reading(second, log, tmp_path):
        wait_for(all_learned(log, 2))


class Topics:
    """An AdminClient of a cluster whose topic has an id, which changes when the topic is made again."""

    id: Any = Uuid(1, 1)

    def __init__(self, settings: Any) -> None:
        assert settings["bootstrap.servers"]

    def describe_topics(self, topics: Any, request_timeout: float) -> "dict[str, Future[Any]]":
        answer: Future[Any] = Future()
        if isinstance(self.id, Exception):
            answer.set_exception(self.id)
        else:
            answer.set_result(type("Topic", (), {"topic_id": self.id}))
        return {"shop": answer}


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Topics]]:
    monkeypatch.setattr("coldstream.ingest.kafka_source.AdminClient", Topics)
    yield Topics
    Topics.id = Uuid(1, 1)


def test_an_offset_that_was_committed_for_a_deleted_topic_is_not_used(tmp_path: Path, topics: type[Topics]) -> None:
    """The mock cluster cannot delete topics. For the group a new id is all that tells the new topic from the old one."""
    cluster, log = KafkaCluster(), Log()
    cluster.publish("shop", EVENTS)
    address = f"kafka://{cluster.address}/shop?{SESSION}"
    with reading(address, log, tmp_path):
        wait_for(all_learned(log, 1))
    with reading(address, log, tmp_path):
        cluster.publish("shop", [b"one more"])
        wait_for(lambda: (tmp_path / "dead.jsonl").exists())
    assert log.duplicates == 0  # the offsets of this topic were used
    topics.id = Uuid(2, 2)
    with reading(address, log, tmp_path):
        wait_for(lambda: log.duplicates == 20)  # it began at the first message
    with reading(address, log, tmp_path):
        cluster.publish("shop", [json.dumps({"user": "last", "item": "i"}).encode()])
        wait_for(lambda: log.users["last"] == 1)
    assert log.duplicates == 20  # and committed offsets for the new topic


def test_offsets_are_not_committed_for_a_topic_that_was_made_again(topics: type[Topics]) -> None:
    cluster = KafkaCluster()
    cluster.publish("shop", EVENTS)
    source = source_of(f"kafka://{cluster.address}/shop?group=shop&{SESSION}")

    async def check() -> None:
        await source.open()
        messages: list[Any] = []
        while not messages:
            messages = await source.fetch(20, 1.0)
        for changed in (Uuid(2, 2), KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))):
            topics.id = changed
            with pytest.raises(SourceUnavailable):
                await source.done(messages)
        with pytest.raises(SourceUnavailable, match="have they the topic shop"):
            await source_of(f"kafka://{cluster.address}/shop?{SESSION}").open()
        await source.close()

    asyncio.run(check())
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": "shop"})
    partitions = [TopicPartition("shop", number) for number in consumer.list_topics("shop").topics["shop"].partitions]
    assert {one.offset for one in consumer.committed(partitions, timeout=30)} == {-1001}
    consumer.close()


# All


@pytest.mark.parametrize(
    "address", ["nats://127.0.0.1:9/X", "tls://127.0.0.1:9/X", "kafka://127.0.0.1:9/x", "postgresql://127.0.0.1:9/x"]
)
def test_names_of_sources_begin_with_a_kind_that_clients_may_not_use(address: str) -> None:
    assert source_kind(source_of(address).name) is not None, urlsplit(address).scheme


def test_an_id_of_a_long_name_keeps_its_place_and_its_digest() -> None:
    long = "kafka:" + 249 * "x"
    ids = {
        message_id(name, f"{2**31}:{place}", fact)
        for name in (long, long + "y")
        for place in (1, 2**63)
        for fact in (b"", b"1")
    }
    assert len(ids) == 8
    assert all(len(one) <= 256 for one in ids)
    assert MAX_NAME_CHARS < 249
    assert message_id("nats:S", "1", b"ab", b"c") != message_id("nats:S", "1", b"a", b"bc")
