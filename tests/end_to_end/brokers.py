"""Brokers for tests: a real NATS server with JetStream, and the mock cluster of Kafka's own library."""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import nats
from confluent_kafka import Producer

from ports import free_port


class NatsServer:
    """A server that keeps its streams in a folder, and can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "NatsServer":
        program = Path(sys.executable).with_name("nats-server")
        command = [program, "--addr", "127.0.0.1", "--port", str(self.port), "--jetstream", "--store_dir", self._folder]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=60).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError("no NATS server")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)

    def back_up(self, folder: Path) -> None:
        """Copy all streams and consumers while the server is down."""
        self.kill()
        shutil.copytree(self._folder, folder)
        self.start()

    def restore(self, folder: Path) -> None:
        """Replace all streams and consumers by those of a backup."""
        self.kill()
        shutil.rmtree(self._folder)
        shutil.copytree(folder, self._folder)
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def publish(self, stream: str, bodies: Iterable[bytes]) -> None:
        """Have a stream, and messages in it that are on disk."""

        async def published() -> None:
            connection = await nats.connect(self.url, connect_timeout=60)
            jetstream = connection.jetstream(timeout=60)
            await jetstream.add_stream(name=stream, subjects=[f"{stream.lower()}.>"])
            for body in bodies:
                await jetstream.publish(f"{stream.lower()}.events", body)
            await connection.close()

        asyncio.run(published())

    def delete(self, stream: str) -> None:
        """Delete a stream with its messages and consumers."""

        async def deleted() -> None:
            connection = await nats.connect(self.url)
            await connection.jetstream(timeout=30).delete_stream(stream)
            await connection.close()

        asyncio.run(deleted())

    def __enter__(self) -> "NatsServer":
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()


class KafkaCluster:
    """Brokers inside the producer's library; others reach them over TCP."""

    def __init__(self) -> None:
        self.producer: Any = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
        (broker,) = self.producer.list_topics(timeout=60).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def publish(self, topic: str, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            self.producer.produce(topic, body)
        assert self.producer.flush(60) == 0
