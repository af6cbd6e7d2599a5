"""What is told to stop stops, with all that it started, whatever it was doing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from served import PATIENCE, SCHEMA, Client, Home, wait_until

from coldstream.service.http.keys import Key, Keys, drawn, hashed
from coldstream.storage import stores

COMPILING_FOR_EVER = """
import sys, time
import coldstream.service.service as service
from coldstream.cli import main
service.{what} = lambda *_: (print("compiling", file=sys.stderr, flush=True), time.sleep(3600))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("what", ["warm_up", "recovered"])
def test_a_service_that_is_still_compiling_stops_when_it_is_told_to(tmp_path: Path, what: str) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    flags = ("--schema", tmp_path / "schema.toml", "--data", tmp_path / "data", "--port", 0)
    command = [sys.executable, "-c", COMPILING_FOR_EVER.format(what=what), "serve", *map(str, flags)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any(line == "compiling\n" for line in process.stderr)
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
        assert "stopped before it was ready" in process.stderr.read()
    with closing(stores.opened(f"sqlite:{tmp_path / 'data'}")):  # nobody holds it
        pass


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> "subprocess.Popen[str]":
        flags = ("--scenario", "churn", "--port", 0, "--data", tmp_path / "data", *arguments)
        command = [sys.executable, "-m", "coldstream", "demo", *map(str, flags)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        left = children(process.pid) if process.poll() is None else []
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="who is whose child is asked of /proc")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_demo_takes_its_service_and_its_audience_with_it(
    demo: Callable[..., "subprocess.Popen[str]"], stop: signal.Signals
) -> None:
    process = demo()
    wait_for(lambda: {"serve", "coldstream.demo"} <= set(started_by(process.pid)))  # a compiler may run as well
    started = children(process.pid)
    process.send_signal(stop)
    status = process.wait(PATIENCE)
    try:
        wait_for(lambda: not any(map(runs, started)))
    finally:
        for pid in started:  # whoever is left would be in the way of everybody after
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert status == {signal.SIGINT: 0, signal.SIGKILL: -signal.SIGKILL}.get(stop, 128 + stop)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="who is whose child is asked of /proc")
def test_a_demo_without_a_page_takes_its_service_with_it(demo: Callable[..., "subprocess.Popen[str]"]) -> None:
    process = demo("--headless")
    wait_for(lambda: "serve" in started_by(process.pid))
    started = children(process.pid)
    process.terminate()
    try:
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert not any(map(runs, started))
    finally:
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children(parent: int) -> list[int]:
    """The processes that another has started and that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            _, _, rest = path.read_text().rpartition(") ")
            state, ppid = rest.split()[:2]
            if int(ppid) == parent and state != "Z":
                found.append(int(path.parent.name))
    return found


def started_by(parent: int) -> list[str]:
    """All words of the command lines of the children of a process."""
    words = []
    for pid in children(parent):
        with suppress(OSError):
            words += Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return words


def runs(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_a_service_that_is_hung_up_on_rereads_its_keys_and_goes_on(tmp_path: Path) -> None:
    path, presented = tmp_path / "keys.toml", drawn()
    keys = Keys([Key("shop", ("read",), hashed(presented))])
    keys.write(path)
    with Home(tmp_path, f"sqlite:{tmp_path / 'data'}").serve("--keys", path) as served:
        served.logged("ready")
        client = Client(served.port, key=presented)
        assert client.ask("GET", "/schema").status == 200
        os.kill(served.pid, signal.SIGHUP)
        assert served.logged("keys were reread")["names"] == ["shop"]
        path.write_text("no keys")
        os.kill(served.pid, signal.SIGHUP)
        assert str(path) in served.logged("keys could not be reread, and stay as they were")["detail"]
        assert client.ask("GET", "/schema").status == 200
        keys.without("shop").write(path)
        assert client.ask("GET", "/schema").status == 401
        client.close()


def test_a_service_without_keys_goes_on_when_it_is_hung_up_on(tmp_path: Path) -> None:
    with Home(tmp_path, f"sqlite:{tmp_path / 'data'}").serve() as served:
        served.ready()
        os.kill(served.pid, signal.SIGHUP)
        wait_until(lambda: not served.runs() or _pending_signals(served.pid) == 0)
        assert served.runs()
        assert served.client().done("GET", "/ready")
        assert served.terminate() == 0


def _pending_signals(pid: int) -> int:
    """The signals that a process was sent and has not taken yet, as the kernel's mask."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
