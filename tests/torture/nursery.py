"""A process that has loaded everything a service needs, and forks one whenever it is asked to.

A start from nothing takes seconds, and a thousand of them take hours. A fork is a process of its own all the same: it dies
as any other. Orders come as lines of JSON on standard input; births and deaths are told as lines on standard output.
"""

import ctypes
import json
import os
import selectors
import signal
import sys
from pathlib import Path

from coldstream import Recommender, Schema
from coldstream.cli import backup, main, serve  # what a service needs is loaded before the first fork
from coldstream.runtime.warming import warm_up
from coldstream.runtime.writing import writer
from coldstream.storage.postgres import compaction as postgres_compaction
from coldstream.storage.sqlite import compaction as sqlite_compaction

_NEW_NETWORK = 0x40000000


def run(schema: Path) -> None:
    """Fork services until standard input ends, and then end all of them."""
    # Small steps, and soon, so that many kills come between two of them.
    writer.TIDY_EVERY = 0.05
    sqlite_compaction.STEP = postgres_compaction.STEP = sqlite_compaction.MARGIN = sqlite_compaction.PAGES = 5
    own = Recommender(Schema.from_toml(schema), factors=4, negatives=5)
    warm_up(own.schema, own.hyperparameters)
    tell(ready=[backup.__name__, serve.__name__])
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(reading, selectors.EVENT_READ)
    alive, rest = set[int](), b""
    while True:
        for key, _ in waiting.select():
            read = os.read(key.fd, 65536)
            if key.fd == reading:
                alive -= buried()
            elif read:
                *orders, rest = (rest + read).split(b"\n")
                for order in orders:
                    alive.add(born(**json.loads(order)))
            else:
                for pid in alive:
                    os.kill(pid, signal.SIGKILL)
                return


def born(arguments: list[str], stderr: str, folder: str, network: str | None = None) -> int:
    """Fork a service that logs to a named pipe, in a network namespace of its own if one is named; its process id."""
    pid = os.fork()
    if pid:
        tell(born=pid)
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ["TMPDIR"] = folder
        if network is not None:
            enter(network)
        log, nothing = os.open(stderr, os.O_WRONLY), os.open(os.devnull, os.O_RDWR)
        for own, other in ((0, nothing), (1, nothing), (2, log)):
            os.dup2(other, own)
        os.closerange(3, 256)
        os._exit(main(arguments))
    finally:
        os._exit(70)


def enter(network: str) -> None:
    """Move this process into a network namespace that `ip netns` has made."""
    namespace = os.open(f"/var/run/netns/{network}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), f"cannot enter {network}")
    os.close(namespace)


def buried() -> set[int]:
    """Those who have died since."""
    dead = set()
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return dead
        if not pid:
            return dead
        dead.add(pid)
        tell(died=pid, status=os.waitstatus_to_exitcode(status))


def tell(**news: object) -> None:
    """Say something to whoever gives the orders."""
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
