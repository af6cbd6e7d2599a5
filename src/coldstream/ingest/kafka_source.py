"""Kafka as a source: a consumer in a group that commits the offsets of learned messages."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from coldstream.ingest.source import Message, SourceUnavailable, last_of_path, message_id

log = logging.getLogger(__name__)

WAIT = 10.0
"""Seconds to wait for an answer of a broker."""
TOPIC_ID_WAIT = 3.0
"""Seconds to wait for the id of a topic, which is read once per batch."""

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id reported by brokers older than 2.8: 16 zero bytes."""


class KafkaSource:
    """A topic, `kafka://host:9092/topic?group=coldstream`; other parameters go to librdkafka, as in `security.protocol=SSL`.

    A committed offset carries the id of its topic. If the topic was deleted and created again, the offset belongs to the
    deleted topic, and reading starts at the first message.
    """

    def __init__(self, url: str) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.topic = last_of_path(url, "a topic", "kafka://127.0.0.1:9092/purchases")
        self.name = f"kafka:{self.topic}"
        self._settings: dict[str, Any] = {
            "bootstrap.servers": urlsplit(url).netloc,
            "group.id": query.pop("group", "coldstream"),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **query,
        }
        self._consumer: Any = None
        self._admin: Any = None
        self._cluster = self._topic_id = ""

    async def open(self) -> None:
        def opened() -> Any:
            self._admin = AdminClient({**self._settings, "log_level": 3})  # it would warn about consumer settings
            consumer = Consumer(self._settings)
            self._cluster = consumer.list_topics(timeout=WAIT).cluster_id or ""
            self._topic_id = self._read_topic_id()
            if not self._topic_id:
                log.warning("topic without an id", extra={"source": self.name})
            consumer.subscribe([self.topic], on_assign=self._check_offsets)
            return consumer

        try:
            self._consumer = await asyncio.to_thread(opened)
        except KafkaException as error:
            message = f"{self.name}: {error}; are the brokers there, and have they the topic {self.topic}?"
            raise SourceUnavailable(message) from error

    async def fetch(self, most: int, seconds: float) -> list[Message]:
        try:
            found = await asyncio.to_thread(self._consumer.consume, most, seconds)
        except KafkaException as error:
            raise SourceUnavailable(f"{self.name}: {error}") from error
        failed = [one.error() for one in found if one.error() is not None]
        if failed and not any(one.error() is None for one in found):
            raise SourceUnavailable(f"{self.name}: {failed[0]}")
        return [Message(self._id(one), one.value() or b"", one) for one in found if one.error() is None]

    async def done(self, messages: Sequence[Message]) -> None:
        last: dict[int, Any] = {}
        for one in messages:
            handle: Any = one.handle
            if handle.partition() not in last or handle.offset() > last[handle.partition()].offset():
                last[handle.partition()] = handle
        try:
            await asyncio.to_thread(self._commit, list(last.values()))
        except KafkaException as error:
            raise SourceUnavailable(f"{self.name}: {error}") from error

    async def lag(self) -> int | None:
        def waiting() -> int:
            assigned = self._consumer.assignment()
            total = 0
            for one in self._consumer.committed(assigned, timeout=WAIT) if assigned else []:
                low, high = self._consumer.get_watermark_offsets(one, timeout=WAIT)
                total += high - (one.offset if one.offset >= 0 else low)
            return total

        try:
            return await asyncio.to_thread(waiting)
        except KafkaException:
            return None

    async def close(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            await asyncio.to_thread(consumer.close)

    def _id(self, message: Any) -> str:
        """Return the id of a message, from its cluster, partition, offset, time, key and body, which never change."""
        place = f"{message.partition()}:{message.offset()}"
        time = repr(message.timestamp()).encode()
        return message_id(self.name, place, self._cluster.encode(), time, message.key() or b"", message.value() or b"")

    def _commit(self, messages: Sequence[Any]) -> None:
        if self._topic_id and self._read_topic_id() != self._topic_id:
            raise SourceUnavailable(f"{self.name}: the topic was deleted or made again; its offsets are not committed")
        offsets = []
        for one in messages:
            # With the leader epoch, brokers detect an offset of messages lost when a log was truncated.
            epoch = -1 if one.leader_epoch() is None else one.leader_epoch()
            offsets.append(TopicPartition(self.topic, one.partition(), one.offset() + 1, self._topic_id, epoch))
        self._consumer.commit(offsets=offsets, asynchronous=False)

    def _check_offsets(self, consumer: Any, partitions: list[Any]) -> None:
        """Reset partitions to their first offset if the committed offset belongs to a deleted topic of the same name."""
        if not self._topic_id:
            return
        committed = consumer.committed(partitions, timeout=WAIT)
        stale = [one for one in committed if one.offset >= 0 and (one.metadata or self._topic_id) != self._topic_id]
        first = []
        for one in stale:
            low, _ = consumer.get_watermark_offsets(one, timeout=WAIT)
            first.append(TopicPartition(self.topic, one.partition, low, self._topic_id))
        if first:
            log.warning("topic made again", extra={"source": self.name, "partitions": [one.partition for one in first]})
            consumer.commit(offsets=first, asynchronous=False)

    def _read_topic_id(self) -> str:
        """Return the id of the topic; an empty string if the brokers do not report one."""
        asked = self._admin.describe_topics(TopicCollection([self.topic]), request_timeout=TOPIC_ID_WAIT)
        try:
            found = str(asked[self.topic].result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return ""
        return "" if found == _NO_ID else found
