"""Network namespaces, one for each replica, joined by a bridge: a cable can be pulled and put back."""

import os
import subprocess
from pathlib import Path

from postgres_server import PostgresServer


class Networks:
    """A bridge with an address of this machine, and namespaces that reach it. Needs root; all of it goes at the end."""

    def __init__(self, count: int) -> None:
        own = os.getpid() % 200
        self.subnet, self._tag = f"10.{77 + own % 100}.{own}", f"cs{os.getpid() % 100000}"
        self.gateway = f"{self.subnet}.1"
        self.names = [f"{self._tag}n{number}" for number in range(count)]
        self._bridge = f"{self._tag}b"
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def address(self, number: int) -> str:
        return f"{self.subnet}.{10 + number}"

    def cut(self, number: int) -> None:
        """Pull the cable: nothing that is sent arrives, and nobody is told."""
        _ip("link", "set", self._cable(number), "down")

    def mend(self, number: int) -> None:
        _ip("link", "set", self._cable(number), "up")

    def close(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    def _cable(self, number: int) -> str:
        return f"{self._tag}v{number}"

    def _make(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.gateway}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for number, name in enumerate(self.names):
            _ip("netns", "add", name)
            _ip("link", "add", self._cable(number), "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", self._cable(number), "master", self._bridge)
            _ip("link", "set", self._cable(number), "up")
            for command in (
                ("addr", "add", f"{self.address(number)}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", name, *command)


class BridgedPostgres(PostgresServer):
    """A server that namespaces on a bridge reach too."""

    def __init__(self, networks: Networks) -> None:
        self.addresses = f"127.0.0.1,{networks.gateway}"
        super().__init__()
        with Path(self._data, "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {networks.subnet}.0/24 trust\n")
        self._run("pg_ctl", "-D", self._data, "reload")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
