"""Services forked from a nursery, with the face of `Served`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Condition, Thread
from typing import IO, Any

from served import PATIENCE, Home, Served

NURSERY = Path(__file__).with_name("nursery.py")


class Nursery:
    """The process that forks, and what it told."""

    def __init__(self, schema: Path) -> None:
        command = [sys.executable, str(NURSERY), str(schema)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._news, self._told, self._pipes = Condition(), list[dict[str, Any]](), 0
        self.deaths: dict[int, int] = {}
        """Exit statuses by process id."""
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait(lambda: any("ready" in news for news in self._told))

    def forked(self, arguments: tuple[object, ...], folder: Path, network: str | None = None) -> tuple[int, IO[str]]:
        """The process id of a new service, and its log. It may live in a network namespace."""
        self._pipes += 1
        pipe = folder / f"log{self._pipes}"
        os.mkfifo(pipe)
        order: dict[str, Any] = {
            "arguments": [str(one) for one in arguments],
            "stderr": str(pipe),
            "folder": str(folder),
            "network": network,
        }
        births = len(self._births())
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        log = pipe.open()
        self._wait(lambda: len(self._births()) > births)
        pipe.unlink()
        return self._births()[-1], log

    def death(self, pid: int) -> int:
        """The exit status of a service, when it has ended."""
        self._wait(lambda: pid in self.deaths)
        return self.deaths[pid]

    def close(self) -> None:
        """End it, and all that it forked."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _births(self) -> list[int]:
        return [news["born"] for news in self._told if "born" in news]

    def _wait(self, happened: Any) -> None:
        with self._news:
            assert self._news.wait_for(lambda: happened() or self._process.poll() is not None, PATIENCE)
        assert happened(), f"the nursery ended with {self._process.poll()}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            news = json.loads(line)
            with self._news:
                self._told.append(news)
                if "died" in news:
                    self.deaths[news["died"]] = news["status"]
                self._news.notify_all()
        with self._news:
            self._news.notify_all()


class _Fork:
    """As much of `Popen` as `Served` asks for."""

    def __init__(self, nursery: Nursery, pid: int, log: IO[str]) -> None:
        self._nursery, self.pid, self.stderr = nursery, pid, log

    def poll(self) -> int | None:
        return self._nursery.deaths.get(self.pid)

    def kill(self) -> None:
        self._signal(9)

    def terminate(self) -> None:
        self._signal(15)

    def wait(self, _: float) -> int:
        return self._nursery.death(self.pid)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Forked(Served):
    """A service that was forked."""

    def __init__(self, nursery: Nursery, *arguments: object, folder: Path) -> None:
        self._nursery = nursery
        super().__init__(*arguments, folder=folder)

    def _started(self, arguments: tuple[object, ...], folder: Path) -> Any:
        return _Fork(self._nursery, *self._nursery.forked(("serve", "--port", 0, *arguments), folder))


class NurseryHome(Home):
    """A home whose services are forked."""

    def __init__(self, folder: Path, url: str, nursery: Nursery | None) -> None:
        super().__init__(folder, url)
        self.nursery = nursery
        """Given before the first service."""

    def _served(self, *arguments: object) -> Served:
        assert self.nursery is not None
        return Forked(self.nursery, *arguments, folder=self._temporary)
