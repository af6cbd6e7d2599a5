"""Events in the background: none is lost without a word, however a program ends, forks, or errs."""

import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from receiver import Receiver, received

from coldstream.client import BackgroundEvents, Client, ClientClosed, Retries, ServiceUnavailable
from patience import PATIENCE

ONCE = Retries(most=1)
NOBODY = "http://127.0.0.1:9"
BEGINNING = """
import multiprocessing, os, sys
import coldstream.client.process as process
from coldstream.client import BackgroundEvents, Client, Retries
process.AT_END = {at_end}
client = Client({url!r}, timeout={at_end}, retries=Retries(most=1))
events = BackgroundEvents(client)
def add(count, item):
    for n in range(count):
        events.add(f"u{{n}}", item)
"""
FORKED = """
pid = os.fork()
if pid:
    print(os.waitpid(pid, 0)[1])
else:
    add(500, 'child')
"""
MULTIPROCESSING = """
child = multiprocessing.get_context('fork').Process(target=add, args=(500, 'child'))
child.start()
child.join()
print(child.exitcode)
"""


@pytest.fixture
def service() -> Iterator[tuple[str, Receiver]]:
    with received() as both:
        yield both


def program(url: str, text: str, seconds: float = PATIENCE) -> tuple[int, str]:
    """How a program ended that does so, and what it said."""
    code = BEGINNING.format(url=url, at_end=2 * PATIENCE) + text  # what waits for longer than it has to is ended
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("add(2000, 'x')", 0),
        ("add(2000, 'x'); sys.exit(3)", 3),
        ("add(2000, 'x'); raise ValueError('boom')", 1),
        ("add(2000, 'x'); events = None", 0),
        ("import atexit; atexit.register(client.close); add(2000, 'x')", 0),
        ("import atexit; add(1, 'y'); atexit.register(add, 2000, 'x')", 0),
    ],
    ids=["end", "exit", "error", "dropped", "client closed at the end", "added at the end"],
)
def test_what_waits_is_sent_when_a_program_ends(service: tuple[str, Receiver], text: str, status: int) -> None:
    url, receiver = service
    ended, said = program(url, text)
    assert ended == status, said
    assert receiver.items["x"] == 2000, said
    assert "not sent" not in said


def test_what_cannot_be_sent_when_a_program_ends_is_counted() -> None:
    status, said = program(NOBODY, "process.AT_END = 1.0; add(300, 'x')")
    assert status == 0
    assert "events that were not sent, and are lost: 300 (POST /events: ConnectError" in said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.parametrize(
    "text", [FORKED + "    os._exit(not events.close(100))", FORKED + "    sys.exit()", MULTIPROCESSING]
)
def test_a_forked_process_sends_its_own_events_and_none_of_its_parents(service: tuple[str, Receiver], text: str) -> None:
    url, receiver = service
    status, said = program(url, f"add(2000, 'parent')\n{text}\nprint(events.learned, events.close(100), events.learned)")
    assert status == 0, said
    assert dict(receiver.items) == {"parent": 2000, "child": 500}, said
    assert said.split()[::3] == ["0", "2000"], said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
def test_forked_processes_have_connections_of_their_own(service: tuple[str, Receiver]) -> None:
    url, receiver = service
    text = """
events.close()
client.recommend("before")
pids = []
for n in range(3):
    pids.append(os.fork())
    if not pids[-1]:
        break
me = str(len(pids)) if not all(pids) else "parent"
wrong = sum(client.recommend(me)[0].item != f"for {me}" for _ in range(200))
if me != "parent":
    os._exit(wrong)
print([os.waitpid(pid, 0)[1] for pid in pids], wrong)
"""
    assert program(url, text) == (0, "[0, 0, 0] 0\n")
    assert receiver.connections == 4


def test_a_block_that_ends_while_the_service_is_away_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    with BackgroundEvents(Client(NOBODY, retries=ONCE)) as events:
        for n in range(7):
            events.add(f"u{n}", "x")
        assert not events.close(0.5)
    assert not events.close()
    assert [one.getMessage()[:48] for one in caplog.records] == ["events that were not sent, and are lost: 7 (POST"]


def test_what_on_refused_raises_holds_up_no_other_event(
    service: tuple[str, Receiver], caplog: pytest.LogCaptureFixture
) -> None:
    url, receiver = service

    def refused(*_: object) -> None:
        raise SystemExit

    with Client(url) as client, BackgroundEvents(client, on_refused=refused) as events:
        events.add("u", "x", kind="no", event_id="order-7")
        assert events.flush(PATIENCE)
        events.add("u", "y")
        assert events.flush(PATIENCE)
    assert (events.learned, events.refused) == (1, 1)
    assert receiver.items == {"y": 1}
    (told,) = caplog.records
    assert "on_refused raised for the event order-7" in told.getMessage()


def test_an_answer_that_nobody_can_read_is_asked_for_again(
    service: tuple[str, Receiver], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url, receiver = service
    learn, tried = Client.learn, []

    def learned(client: Client, events: object) -> object:
        tried.append(events)
        if len(tried) < 3:
            raise ValueError("what a proxy says is no JSON")
        return learn(client, events)

    monkeypatch.setattr(Client, "learn", learned)
    with Client(url) as client, BackgroundEvents(client) as events:
        events.add("u", "x")
        assert events.flush(PATIENCE)
    assert receiver.items == {"x": 1}
    (told,) = caplog.records
    assert told.levelno == logging.ERROR


def test_a_client_that_was_closed_first_is_said(service: tuple[str, Receiver], caplog: pytest.LogCaptureFixture) -> None:
    client = Client(service[0])
    events = BackgroundEvents(client)
    client.close()
    with pytest.raises(ClientClosed, match="this client was closed"):
        client.recommend("u")
    events.add("u", "x")
    assert not events.flush(PATIENCE)
    with pytest.raises(ServiceUnavailable, match="the client of this was closed"):
        events.add("u", "y")
    assert not events.close()
    assert "events that were not sent, and are lost: 1 (POST /events: this client was closed" in caplog.text


def test_one_that_is_dropped_sends_what_it_has_and_ends(service: tuple[str, Receiver]) -> None:
    url, receiver = service
    with Client(url) as client:
        before = threading.active_count()
        events = BackgroundEvents(client)
        for n in range(1000):
            events.add(f"u{n}", "x")
        (thread,) = [one for one in threading.enumerate() if one.name == "coldstream-events"]
        del events
        gc.collect()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert receiver.items == {"x": 1000}
        assert threading.active_count() <= before + 1  # the receiver's, for the connection
