"""What a client may hold, and for how long: beyond that it is told so, the others are served, and it is counted."""

import asyncio
import json
import resource
import time
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from listening import BIG, PATIENCE, Client, Listening, echo, listening, wait_until
from uvicorn.server import ServerState

from coldstream import InvalidInput
from coldstream.service.http.connection import MOST_HEADERS, SPARE, Connection
from coldstream.service.http.connection_limits import MOST, RESERVED, connection_limits
from coldstream.service.http.connections import Connections
from coldstream.service.http.turned_away import LOG_EVERY, Reason, TurnedAway
from coldstream.service.settings import Settings

GET = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONG = 60.0
"""Seconds that no test waits for."""


def post(length: int, body: bytes = b"") -> bytes:
    return b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % length + body


def refused(answer: tuple[int, dict[str, str], bytes], status: int) -> str:
    assert answer[0] == status, answer
    assert answer[1]["content-type"] == "application/problem+json"
    assert answer[1]["connection"] == "close"
    assert ("retry-after" in answer[1]) == (status == 503)
    document = json.loads(answer[2])
    assert document["status"] == status
    return str(document["detail"])


def served(client: Client) -> bool:
    client.send(GET)
    return client.answer()[0] == 200


def served_client(server: Listening) -> Client:
    """A client that was served. Where the limit is short and the machine busy, it may come too late: then another comes."""
    end = time.monotonic() + PATIENCE
    while True:
        client = server.client()
        try:
            assert served(client)
        except OSError:
            assert time.monotonic() < end
        else:
            return client


def test_an_ordinary_client_is_served_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch) as server:
        client = server.client()
        assert all(served(client) for _ in range(3))
        client.send(GET * 3)
        assert [client.answer()[0] for _ in range(3)] == [200] * 3
        client.send(post(5, b"hel"))
        client.send(b"lo")
        assert json.loads(client.answer()[2])["length"] == 5
        assert "\ncoldstream_turned_away_total{" not in server.metrics()
        assert "coldstream_connections 1.0" in server.metrics()


# Time


def test_who_connects_and_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, header_seconds=0.2, idle_seconds=LONG) as server:
        assert server.client().is_ended()
        wait_until(lambda: server.turned_away("idle") == 1)


def test_headers_that_never_end_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, header_seconds=0.3, idle_seconds=LONG) as server:
        client = served_client(server)
        client.send(b"GET /a HTTP/1.1\r\nHost: loc")
        assert "headers" in refused(client.answer(), 408)
        assert client.is_ended()
        assert server.turned_away("slow headers") == 1


def test_a_body_that_drips_is_not_waited_for_and_a_quick_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, body_seconds=0.3, header_seconds=LONG) as server:
        slow, quick = server.client(), server.client()
        slow.send(post(100, b"x"))
        quick.send(post(3, b"abc"))
        assert quick.answer()[0] == 200
        assert "body" in refused(slow.answer(), 408)
        assert slow.is_ended()
        assert server.turned_away("slow body") == 1


class Transport(asyncio.Transport):
    """Keeps what is written, and reads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.ended = b"", False

    def write(self, data: Any) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Clocked:
    """A connection whose request has a body of a megabyte, looked at by a clock of its own."""

    def __init__(self, app: Any, path: str = "/a") -> None:
        self.shared = Connections(connection_limits(Settings(body_seconds=30)), lambda _: None)
        loop, config = asyncio.get_running_loop(), uvicorn.Config(app, log_config=None)
        config.load()
        self.connection = self.shared.connection(config=config, server_state=ServerState(), app_state={}, _loop=loop)
        self.transport, self.now = Transport(), loop.time()
        self.connection.connection_made(self.transport)
        self.connection.data_received(post(10**6).replace(b" /a ", b" %b " % path.encode()))

    async def pass_time(self, seconds: int, each: bytes = b"") -> None:
        """Let seconds pass; in each of them some bytes come."""
        for _ in range(seconds):
            if each:
                self.connection.data_received(each)
            for _ in range(5):  # turns in which an application takes what has come
                await asyncio.sleep(0)
            self.now += 1.0
            self.connection.look(self.now)

    @property
    def status(self) -> int:
        """Of the answer; 0 if there is none."""
        return int(self.transport.written[9:12] or 0)


async def reading(_: Any, receive: Any, __: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def busy(_: Any, __: Any, ___: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("app", "each", "seconds"),
    [
        (reading, b"", 30),
        (reading, b"x", 31),
        (reading, b"x" * 512, 60),
        (reading, b"x" * 1024, None),
        (busy, b"x" * 1000, None),
    ],
    ids=["silent", "dripping", "half the rate", "at the rate", "not taken"],
)
def test_only_waiting_for_the_client_counts_and_a_drip_is_waiting(app: Any, each: bytes, seconds: int | None) -> None:
    async def work() -> None:
        clocked = Clocked(app)
        await clocked.pass_time(1)  # a first look sees it
        if seconds is None:
            await clocked.pass_time(900, each)
            assert clocked.status == 0
            return
        await clocked.pass_time(seconds - 1, each)
        assert clocked.status == 0
        await clocked.pass_time(1, each)
        assert clocked.status == 408

    asyncio.run(work())


def test_a_process_that_stood_still_did_not_wait_for_its_client() -> None:
    async def work() -> None:
        clocked = Clocked(reading)
        await clocked.pass_time(1)
        clocked.now += 1000.0
        await clocked.pass_time(25)
        assert clocked.status == 0
        await clocked.pass_time(5)
        assert clocked.status == 408

    asyncio.run(work())


def test_an_application_that_streams_says_itself_how_far_it_came() -> None:
    async def work() -> None:
        clocked = Clocked(echo, "/lines")
        await clocked.pass_time(1, b"x" * 700)
        await clocked.pass_time(31)
        await clocked.pass_time(1, b"too late")
        assert clocked.status == 408
        assert b"\r\n\r\n700, the body of a request must not" in clocked.transport.written
        assert clocked.transport.ended

    asyncio.run(work())


def test_of_a_body_that_is_streamed_only_what_is_not_taken_is_held() -> None:
    async def work() -> None:
        streamed, whole = Clocked(echo, "/lines"), Clocked(echo)
        for clocked in (streamed, whole):
            await clocked.pass_time(100, b"x" * 1000)
        assert (streamed.shared.held, whole.shared.held) == (1000, 100_000)

    asyncio.run(work())


def test_an_early_answer_is_read_although_the_body_is_still_being_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch) as server:
        client = server.client()
        client.send(post(2**24, b"x" * 2**23).replace(b" /a ", b" /early "))
        client.send(b"x" * 2**22)
        assert client.answer()[0] == 413
        assert client.is_ended()


def test_a_stop_lets_a_stream_say_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, shutdown_seconds=LONG) as server:
        client = server.client()
        client.send(post(100, b"x" * 60).replace(b" /a ", b" /lines "))
        server.asked(GET)
        server.stop()
        status, _, body = client.answer()
        assert (status, body) == (503, b"60, the service is stopping; send the same again when it is back")


@pytest.mark.parametrize("still", [b"", b"\r\n"])
def test_a_connection_that_is_kept_open_for_nothing_is_ended(monkeypatch: pytest.MonkeyPatch, still: bytes) -> None:
    with listening(monkeypatch, idle_seconds=0.3, header_seconds=LONG) as server:
        client = server.client()
        assert served(client)
        if still:
            client.send(still)
        assert client.is_ended()


def test_who_does_not_read_an_answer_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, idle_seconds=0.3) as server:
        client = server.client()
        client.send(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n" * 8)
        wait_until(lambda: "coldstream_connections 0.0" in server.metrics())
        end, body = time.monotonic() + PATIENCE, b""
        while not body:  # a busy machine may have the reader come too late
            reader = server.client()
            reader.send(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with suppress(OSError, AssertionError):
                body = reader.answer()[2]
            assert body or time.monotonic() < end
        assert len(body) == BIG


# Room


def test_headers_that_are_too_long_are_refused_before_they_have_all_come(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, header_bytes=2048) as server:
        for endless in (
            b"GET /a HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 4096,
            b"GET /a HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(1000)),
            b"GET /" + b"a" * 4096,
            b"GET /a HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 4096 + b"\r\n\r\n",
            post(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"0\r\nX: " + b"x" * 2**20,
            b"".join((b"GET /a HTTP/1.1\r\n", *(b"X: y\r\n" for _ in range(MOST_HEADERS + 1)), b"\r\n")),
        ):
            assert "headers" in refused(server.asked(endless), 431)
        assert server.turned_away("long headers") == 6
        assert server.asked(post(50_000, b"x" * 50_000))[0] == 200
        many = b"".join(b"1\r\nx\r\n" for _ in range(5000)) + b"0\r\n\r\n"
        chunked = post(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + many
        assert json.loads(server.asked(chunked)[2])["length"] == 5000


def test_bodies_that_are_held_back_have_so_much_room_and_small_ones_always_have_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with listening(monkeypatch, bodies_bytes=2**20) as server:
        holders = [server.client() for _ in range(8)]
        for holder in holders:
            holder.send(post(2**19, b"x" * 2**18))
        wait_until(lambda: server.turned_away("bodies") >= 4)
        assert server.asked(post(1000, b"x" * 1000))[0] == 200
        for holder in holders:
            holder.close()
        wait_until(lambda: "coldstream_connections 1.0" in server.metrics())
        assert server.asked(post(2**19, b"x" * 2**19))[0] == 200


def test_what_is_held_is_let_go_when_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, bodies_bytes=2**20) as server:
        client = server.client()
        for _ in range(10):
            client.send(post(2**19, b"x" * 2**19))
            assert client.answer()[0] == 200
        assert server.turned_away("bodies") == 0


def test_one_connection_too_many_is_told_so_and_there_is_room_when_another_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, connections=3) as server:
        clients = [server.client() for _ in range(3)]
        assert all(served(client) for client in clients)
        for _ in range(5):
            late = server.client()
            late.send(GET)
            assert "connection" in refused(late.answer(), 503)
            assert late.is_ended()
            late.close()
        assert server.turned_away("connections") == 5
        assert served(clients[0])
        clients.pop().close()
        wait_until(lambda: "coldstream_connections 2.0" in server.metrics())
        assert served(server.client())


def test_a_flood_of_connections_leaves_those_who_are_served_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, connections=2) as server:
        regular = server.client()
        assert served(regular)
        flood = [server.client() for _ in range(SPARE + 40)]
        wait_until(lambda: server.turned_away("connections") >= SPARE + 39)
        assert served(regular)
        for one in flood:
            one.close()
        wait_until(lambda: "coldstream_connections 1.0" in server.metrics())
        assert served(server.client())


def test_descriptors_are_left_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(descriptors: int, connections: int | None = None) -> int:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
        return connection_limits(Settings(connections=connections)).connections

    assert limited(1024) == 1024 - RESERVED
    assert limited(64) == 32
    assert limited(10**6) == limited(resource.RLIM_INFINITY) == MOST
    assert limited(1024, 500) == 500
    assert limited(10**6, 50_000) == limited(resource.RLIM_INFINITY, 50_000) == 50_000
    with pytest.raises(InvalidInput, match=r"connections must be at most 896 .* got 1000; raise the limit \(ulimit -n\)"):
        limited(1024, 1000)


# A stop


def test_a_stop_does_not_wait_for_who_does_not_send(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, shutdown_seconds=3 * LONG, body_seconds=3 * LONG, header_seconds=3 * LONG) as server:
        body, headers, nothing = server.client(), server.client(), server.client()
        body.send(post(100, b"x"))
        headers.send(b"GET /a HT")
        wait_until(lambda: "coldstream_connections 3.0" in server.metrics())
        assert served(server.client())
        server.stop()
        assert "stopping" in refused(body.answer(), 503)
        assert server.has_stopped(LONG)
        assert headers.is_ended()
        assert nothing.is_ended()


def test_a_stop_does_not_wait_for_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, shutdown_seconds=3 * LONG, idle_seconds=3 * LONG) as server:
        client = server.client()
        client.send(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.until(b"\r\n\r\n")
        server.stop()
        assert server.has_stopped(LONG)


# What is no request


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"nonsense\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        post(3).replace(b"Content-Length: 3", b"Content-Length: 3\r\nContent-Length: 4") + b"abc",
        post(3).replace(b"Content-Length: 3", b"Content-Length: 3\r\nTransfer-Encoding: chunked") + b"abc",
    ],
)
def test_what_is_no_request_is_told_so(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    with listening(monkeypatch) as server:
        assert refused(server.asked(data), 400)
        assert server.turned_away("malformed") == 1


def test_a_path_is_not_cut_at_its_fragment(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch) as server:
        assert "%23" in refused(server.asked(b"DELETE /items/c#5 HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400)


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"


def test_an_offer_to_speak_another_protocol_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch) as server:
        client = server.client()
        body = b"\r\nUpgrade: h2c\r\n\r\n"
        for _ in range(2):
            client.send(b"POST /a HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n%b" % (OFFER, len(body), body))
            answer = client.answer()
            assert (answer[0], json.loads(answer[2])["length"]) == (200, len(body))


def test_a_body_after_an_offer_in_pieces_is_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    came, received = list[bytes](), Connection.data_received

    def noted(connection: Connection, data: bytes) -> None:
        came.append(data)
        received(connection, data)

    monkeypatch.setattr(Connection, "data_received", noted)
    with listening(monkeypatch) as server:
        client = server.client()
        head = b"POST /a HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n" % (OFFER, len(GET))
        client.send(head[:50])
        wait_until(lambda: came == [head[:50]])
        client.send(head[50:] + GET)
        assert "Upgrade" in refused(client.answer(), 400)
        assert client.is_ended()
        assert server.turned_away("upgrade") == 1


def test_trailers_are_no_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    head = b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailers = b"0\r\nHost: evil.com\r\nContent-Type: text/plain\r\nAuthorization: Bearer x\r\n\r\n"
    with listening(monkeypatch) as server:
        client = server.client()
        for _ in range(2):
            client.send(head + b"2\r\nhi\r\n" + trailers)
            heard = json.loads(client.answer()[2])
            assert heard["length"] == 2
            assert heard["headers"] == [
                ["host", "localhost"],
                ["content-type", "application/json"],
                ["transfer-encoding", "chunked"],
            ]


# Proxies


def client_of(server: Listening) -> str:
    head = b"GET /a HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n"
    return str(json.loads(server.asked(head)[2])["client"])


def test_nobody_is_believed_about_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    with listening(monkeypatch) as server:
        assert client_of(server) == "127.0.0.1"
    with listening(monkeypatch, proxies="10.0.0.7, 192.168.0.0/24") as server:
        assert client_of(server) == "127.0.0.1"


def test_a_stated_proxy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch, proxies="10.0.0.7, 127.0.0.0/8") as server:
        assert client_of(server) == "198.51.100.7"


@pytest.mark.parametrize("proxies", ["*", "", "localhost", "10.0.0.7,", "10.0.0.7/33"])
def test_a_proxy_has_an_address(proxies: str) -> None:
    with pytest.raises(InvalidInput, match=r"proxies must be addresses or networks .*, such as 10\.0\.0\.7"):
        Settings(proxies=proxies)


# The log


def test_the_log_is_not_flooded(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []
    turned_away = TurnedAway(counted.append)
    for moment in range(100):
        for _ in range(10):
            turned_away.add(Reason.CONNECTIONS)
        if moment == 50:
            turned_away.add(Reason.SLOW_BODY)
        turned_away.log(moment * LOG_EVERY / 50)
    lines = [(vars(record)["reason"], vars(record)["count"]) for record in caplog.records]
    assert lines == [("connections", 10), ("connections", 500), ("slow body", 1)]
    assert len(counted) == 1001
