"""What is passed on to the writer: certain failures are tried again, unclear ones are not."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest

from coldstream.service.http import forwarding
from coldstream.service.http.forwarding import ELSEWHERE, HOP, Forwarded, Forwarder
from coldstream.service.http.problems import Problem
from patience import PATIENCE

GOOD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
NOT_HERE = b"HTTP/1.1 503 No\r\n%b: 1\r\ncontent-length: 0\r\n\r\n" % ELSEWHERE


class Writers:
    """Servers that answer as they are told, and the one of them that is announced."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.address: str | None = None
        self.here, self.changed = False, asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._forwarders: list[Forwarder] = []

    async def started(self, *answers: bytes | None) -> str:
        """The address of a server that gives these answers; None ends the connection instead."""
        coming = iter(answers)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while head := await reader.read(65536):
                self.heard.append(head)
                answer = next(coming)
                if answer is None:
                    break
                writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        host, port = server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def announce(self, address: str | None) -> None:
        self.address = address
        self.changed.set()
        self.changed = asyncio.Event()

    def forwarder(self, seconds: float = PATIENCE) -> Forwarder:
        self._forwarders.append(Forwarder(lambda: self.here, lambda: self.address, lambda: self.changed, seconds))
        return self._forwarders[-1]

    async def close(self) -> None:
        for forwarder in self._forwarders:
            forwarder.close()
        for server in self._servers:
            server.close()
        await asyncio.sleep(0.05)  # the last connections end


def run(check: Callable[[Writers], Awaitable[None]]) -> None:
    async def checked() -> None:
        writers = Writers()
        try:
            await asyncio.wait_for(check(writers), PATIENCE)
        finally:
            await writers.close()

    asyncio.run(checked())


async def posted(forwarder: Forwarder) -> Forwarded | None:
    headers = {b"authorization": b"Bearer k", b"content-type": b"application/json", b"cookie": b"c"}
    headers[b"coldstream-source"] = b"nats"
    return await forwarder.forward("POST", b"/events", headers, b"[1]")


def test_nothing_goes_on_waiting_for_another_writer_after_an_answer() -> None:
    """A task for every request that was ever passed on would be memory that only grows."""

    async def check(writers: Writers) -> None:
        writers.address = await writers.started(*5 * [GOOD])
        forwarder, before = writers.forwarder(), asyncio.all_tasks()
        for _ in range(5):
            await posted(forwarder)
        await asyncio.sleep(0)
        waiting = [task for task in asyncio.all_tasks() - before if "Event.wait" in repr(task.get_coro())]
        assert not waiting

    run(check)


def test_key_and_body_travel_along_over_a_connection_that_is_kept() -> None:
    async def check(writers: Writers) -> None:
        writers.address = await writers.started(GOOD, GOOD)
        forwarder = writers.forwarder()
        for _ in range(2):
            answer = await posted(forwarder)
            assert answer is not None
            assert (answer.status, answer.body) == (200, b"{}")
        assert all(b"authorization: Bearer k\r\n" in heard and heard.endswith(b"\r\n\r\n[1]") for heard in writers.heard)
        assert all(b"coldstream-source: nats\r\n" in heard for heard in writers.heard)
        assert all(HOP + b": 1\r\n" in heard and b"cookie" not in heard for heard in writers.heard)

    run(check)


def test_what_nobody_took_is_sent_to_the_next_writer() -> None:
    async def check(writers: Writers) -> None:
        writers.address = await writers.started(NOT_HERE, NOT_HERE, NOT_HERE, *[NOT_HERE] * 100)
        next_one = await writers.started(GOOD)
        asyncio.get_running_loop().call_later(0.2, writers.announce, next_one)
        answer = await posted(writers.forwarder())
        assert answer is not None
        assert answer.status == 200

    run(check)


def test_nobody_to_be_reached_is_said_after_a_while() -> None:
    async def check(writers: Writers) -> None:
        for address in (None, "127.0.0.1:1"):
            writers.address = address
            with pytest.raises(Problem, match=r"no writer could be reached in 0\.2 s") as raised:
                await posted(writers.forwarder(0.2))
            assert raised.value.status == HTTPStatus.SERVICE_UNAVAILABLE
            assert raised.value.headers["Retry-After"] == "1"

    run(check)


def test_what_may_have_been_taken_is_not_sent_again() -> None:
    async def check(writers: Writers) -> None:
        writers.address = await writers.started(None, GOOD)
        with pytest.raises(Problem, match="may have taken it"):
            await posted(writers.forwarder())
        assert len(writers.heard) == 1

    run(check)


def test_a_writer_that_does_not_answer_is_left_when_another_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "LONGEST_CONNECTING", 0.2)

    async def check(writers: Writers) -> None:
        writers.address = await writers.started(b"")
        asyncio.get_running_loop().call_later(0.1, writers.announce, "127.0.0.1:1")
        with pytest.raises(Problem, match="may have taken it"):
            await asyncio.wait_for(posted(writers.forwarder(10 * PATIENCE)), PATIENCE)

    run(check)


def test_who_becomes_the_writer_does_it_itself() -> None:
    async def check(writers: Writers) -> None:
        writers.here = True
        assert await posted(writers.forwarder()) is None

    run(check)


CLOSING = GOOD.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n", 1)


def test_a_connection_that_the_writer_ends_is_not_kept() -> None:
    async def check(writers: Writers) -> None:
        address = writers.address = await writers.started(CLOSING, GOOD)
        forwarder = writers.forwarder()
        kept = list[int]()
        for _ in range(2):
            assert await posted(forwarder) is not None
            kept.append(len(forwarder._idle[address]))
        assert kept == [0, 1]

    run(check)


def test_so_many_connections_are_kept_and_all_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MOST_IDLE", 2)

    async def check(writers: Writers) -> None:
        address = writers.address = await writers.started(*[GOOD] * 5)
        forwarder = writers.forwarder()
        await asyncio.gather(*(posted(forwarder) for _ in range(5)))
        kept = forwarder._idle[address].copy()
        assert [connection.writer.is_closing() for connection in kept] == [False, False]
        forwarder.close()
        assert [connection.writer.is_closing() for connection in kept] == [True, True]
        assert not forwarder._idle

    run(check)


@pytest.mark.parametrize("how", ["it ended", "it is being closed"])
def test_a_kept_connection_that_has_ended_is_not_used(how: str) -> None:
    async def check(writers: Writers) -> None:
        address = writers.address = await writers.started(*[GOOD] * 2)
        forwarder = writers.forwarder()
        await posted(forwarder)
        (kept,) = forwarder._idle[address]
        if how == "it ended":
            kept.reader.feed_eof()
        else:
            kept.writer.close()
        answer = await posted(forwarder)
        assert answer is not None
        assert answer.status == 200
        assert kept.writer.is_closing()
        assert kept not in forwarder._idle[address]

    run(check)


def test_headers_and_parts_of_an_answer_are_put_together() -> None:
    async def check(writers: Writers) -> None:
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (b'{"a":', b"1}", b""))
        writers.address = await writers.started(
            b"HTTP/1.1 201 Made\r\nRetry-After: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
        )
        answer = await posted(writers.forwarder())
        assert answer is not None
        assert (answer.status, answer.body, answer.headers[b"retry-after"]) == (201, b'{"a":1}', b"3")

    run(check)
