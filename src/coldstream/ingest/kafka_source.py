"""Kafka: a consumer of a group, which commits what was learned."""

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from confluent_kafka import Consumer, KafkaException, TopicPartition

from coldstream.ingest.source import Message, SourceUnavailable, last_of_path

WAIT = 10.0
"""Seconds for an answer of a broker."""


class KafkaSource:
    """A topic, `kafka://host:9092/topic?group=coldstream`; other parameters are librdkafka's, `security.protocol=SSL`."""

    def __init__(self, url: str) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.topic = last_of_path(url, "a topic", "kafka://127.0.0.1:9092/purchases")
        self.name = f"kafka:{self.topic}"
        self._settings = {
            "bootstrap.servers": urlsplit(url).netloc,
            "group.id": query.pop("group", "coldstream"),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **query,
        }
        self._consumer: Any = None

    async def open(self) -> None:
        def opened() -> Any:
            consumer = Consumer(self._settings)
            consumer.list_topics(timeout=WAIT)
            consumer.subscribe([self.topic])
            return consumer

        try:
            self._consumer = await asyncio.to_thread(opened)
        except KafkaException as error:
            raise SourceUnavailable(f"{self.name}: {error}; are the brokers there?") from error

    async def fetch(self, most: int, seconds: float) -> list[Message]:
        found = await asyncio.to_thread(self._consumer.consume, most, seconds)
        failed = [one.error() for one in found if one.error() is not None]
        if failed and not any(one.error() is None for one in found):
            raise SourceUnavailable(f"{self.name}: {failed[0]}")
        good = [one for one in found if one.error() is None]
        return [Message(f"{self.name}:{one.partition()}:{one.offset()}", one.value() or b"", one) for one in good]

    async def done(self, messages: Sequence[Message]) -> None:
        last: dict[int, int] = {}
        for one in messages:
            handle: Any = one.handle
            last[handle.partition()] = max(last.get(handle.partition(), 0), handle.offset() + 1)
        offsets = [TopicPartition(self.topic, partition, offset) for partition, offset in last.items()]
        try:
            await asyncio.to_thread(self._consumer.commit, offsets=offsets, asynchronous=False)
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
