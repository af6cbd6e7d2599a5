"""Failovers under load: the writer is killed, stopped, loses its sessions or its network, again and again.

After every one of them nothing that was acknowledged is lost, nothing is there twice, and all replicas hold the same bits.
"""

import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psycopg
from forked import Forked, Nursery, _Fork
from networks import BridgedPostgres, Networks
from served import Client, Gone, Home, wait_until

from coldstream.service.http.keys import SCOPES, Key, Keys, drawn, hashed
from replicas import Shopper, check_log, shopping

REPLICAS = 3
LOAD, REST = 0.7, 0.3
"""Seconds of shopping before the writer is lost, and after the next one writes."""

KINDS = ("kill -9", "SIGSTOP", "sessions terminated", "network cut")


class Outcome(NamedTuple):
    """What the failovers came to."""

    failovers: int
    changed: int
    """After which another process was the writer."""
    acknowledged: int
    seconds: list[tuple[str, float]]
    """From each loss to the first acknowledgement of an event that was sent after it, by kind."""
    read_right: int
    read_late: int
    read_before: int = 0
    """Trials of reading one's writes before the first failover, all of them right."""


class Elsewhere(Forked):
    """A service that was forked into a network of its own."""

    def __init__(self, nursery: Nursery, network: str, address: str, key: str, *arguments: object, folder: Path) -> None:
        self.network, self.address, self.key = network, address, key
        super().__init__(nursery, "--host", address, *arguments, folder=folder)

    def _started(self, arguments: tuple[object, ...], folder: Path) -> _Fork:
        given = ("serve", "--port", 0, *arguments)
        return _Fork(self._nursery, *self._nursery.forked(given, folder, self.network))

    def client(self) -> Client:
        client = self.connected()
        self._clients.append(client)
        return client

    def connected(self, timeout: float = 4.0) -> Client:
        return Client(self.port, timeout, self.address, self.key)

    @property
    def role(self) -> str | None:
        client = self.connected()
        try:
            return str(client.done("GET", "/health")["role"])
        except Gone:
            return None
        finally:
            client.close()


class Campaign:
    """A store, three replicas, and what they go through."""

    def __init__(self, folder: Path, networks: Networks, server: BridgedPostgres, seed: int) -> None:
        self.networks, self.server, self.random = networks, server, random.Random(seed)
        self.home = Home(folder, server.new_schema())
        self.nursery = Nursery(self.home.schema)
        self.key, self._folder = drawn(), folder
        self._keys = folder / "keys.toml"
        Keys([Key("torture", SCOPES, hashed(self.key))]).write(self._keys)
        self.replicas = [self._start(number) for number in range(REPLICAS)]
        for replica in self.replicas:
            replica.ready()

    def _start(self, number: int) -> Elsewhere:
        url = self.home.url.replace("127.0.0.1", self.networks.gateway)
        model = ("--schema", self.home.schema, "--store", url, "--set", "factors=4", "--set", "negatives=5")
        flags = (*model, "--erase-minutes", 0, "--keys", self._keys, "--snapshot-events", 400)
        network, address = self.networks.names[number], self.networks.address(number)
        return Elsewhere(self.nursery, network, address, self.key, *flags, folder=self._folder / "temporary")

    def close(self) -> None:
        for replica in self.replicas:
            replica.__exit__(None, None, None)
        self.nursery.close()

    def round(self, kind: str, name: str) -> tuple[list[Shopper], float, bool]:
        """One failover: the shoppers of it, the seconds until somebody wrote again, and whether that was another."""
        writer = self._writer()
        victim = self.replicas.index(writer)
        places = list(self.replicas)
        with shopping(lambda: places, f"{name}-", lambda replica: replica.connected()) as shoppers:
            time.sleep(LOAD * (0.5 + self.random.random()))
            lost = time.monotonic()
            self._lose(kind, victim)
            # A proxy's health check would leave it out. Whose sessions are gone still answers.
            if kind != "sessions terminated":
                places[:] = [replica for replica in self.replicas if replica is not writer]
            wait_until(lambda: _next(shoppers, lost) is not None)
            time.sleep(REST)
            self._heal(kind, victim)
            places[:] = self.replicas
            wait_until(lambda: all(replica.role is not None for replica in self.replicas))
            time.sleep(REST)
        first = _next(shoppers, lost)
        assert first is not None
        self._check_same()
        return shoppers, first - lost, self._writer() is not writer

    def _writer(self) -> Elsewhere:
        found: list[Elsewhere] = []

        def look() -> bool:
            found[:] = [replica for replica in self.replicas if replica.role == "writer"]
            return len(found) == 1

        wait_until(look)
        return found[0]

    def _lose(self, kind: str, victim: int) -> None:
        replica = self.replicas[victim]
        if kind == "kill -9":
            replica.kill()
        elif kind == "SIGSTOP":
            os.kill(replica.pid, signal.SIGSTOP)
        elif kind == "network cut":
            self.networks.cut(victim)
        else:
            with psycopg.connect(self.server.url, autocommit=True) as connection:
                query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_addr = %s::inet"
                connection.execute(query, (replica.address,))

    def _heal(self, kind: str, victim: int) -> None:
        replica = self.replicas[victim]
        if kind == "kill -9":
            replica.__exit__(None, None, None)
            self.replicas[victim] = self._start(victim)
            self.replicas[victim].ready()
        elif kind == "SIGSTOP":
            os.kill(replica.pid, signal.SIGCONT)
        elif kind == "network cut":
            self.networks.mend(victim)

    def _check_same(self) -> None:
        """All replicas know all lines, and at equal positions they hold the same bits."""

        def are_level() -> bool:
            found: dict[int, set[str]] = {}
            for replica in self.replicas:
                client = replica.connected(60.0)
                try:
                    said = client.done("GET", "/fingerprint")
                except (Gone, AssertionError):
                    return False
                finally:
                    client.close()
                found.setdefault(said["position"], set()).add(said["fingerprint"])
            assert all(len(own) == 1 for own in found.values()), found
            with self.home.look() as store:  # a write whose client has gone may still come
                return list(found) == [store.last()]

        wait_until(are_level)


def read_your_writes(campaign: Campaign, trials: int, say: Callable[[str], None]) -> int:
    """Write at one replica and read at any, so often; every read has to know what was written."""
    started = time.monotonic()
    with shopping(lambda: campaign.replicas, "read-", lambda replica: replica.connected(30.0)) as shoppers:
        while sum(one.read_right for one in shoppers) < trials and all(one.is_alive() for one in shoppers):
            time.sleep(0.1)
    right, late = sum(one.read_right for one in shoppers), sum(one.read_late for one in shoppers)
    assert [one.failed for one in shoppers] == [[]] * len(shoppers)
    assert [one.read_wrong for one in shoppers] == [[]] * len(shoppers)
    assert late == 0
    check_log(shoppers, campaign.home.lines())
    say(f"  {right:,} of {right:,} reads knew what was written elsewhere, in {time.monotonic() - started:.0f} s")
    return right


def _next(shoppers: list[Shopper], lost: float) -> float | None:
    """When the first event was acknowledged that was sent after the writer was lost."""
    return min((then for shopper in shoppers for sent, then in list(shopper.answered) if sent > lost), default=None)


def failovers(count: int, trials: int, seed: int, say: Callable[[str], None]) -> Outcome:
    """So many trials of reading one's writes, and failovers, a fourth of each kind.

    Whatever is lost, learned twice or different raises.
    """
    networks = Networks(REPLICAS)
    try:
        server = BridgedPostgres(networks)
        try:
            with tempfile.TemporaryDirectory(prefix="coldstream-failovers-") as folder:
                campaign = Campaign(Path(folder), networks, server, seed)
                try:
                    read = read_your_writes(campaign, trials, say) if trials else 0
                    return _all(campaign, count, say)._replace(read_before=read)
                finally:
                    campaign.close()
        finally:
            server.remove()
    finally:
        networks.close()


def _all(campaign: Campaign, count: int, say: Callable[[str], None]) -> Outcome:
    everybody, seconds, changed = list[Shopper](), list[tuple[str, float]](), 0
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        shoppers, took, other = campaign.round(kind, f"r{number}")
        everybody += shoppers
        seconds.append((kind, took))
        changed += other
        say(f"  {number + 1} of {count}, {kind}: {took:.2f} s, {'another' if other else 'the same'} process writes")
    acknowledged = check_log(everybody, campaign.home.lines())
    said = campaign.home.verify()
    assert "NOT" not in said, said
    wrong = [answer for one in everybody for answer in one.read_wrong]
    assert not wrong, wrong[:3]
    right, late = sum(one.read_right for one in everybody), sum(one.read_late for one in everybody)
    return Outcome(count, changed, acknowledged, seconds, right, late)


def summary(outcome: Outcome) -> list[str]:
    """The outcome in words."""
    times = [took for _, took in outcome.seconds]
    words = [
        f"{outcome.failovers} failovers under load, {outcome.changed} of them to another process: "
        f"{outcome.acknowledged:,} acknowledged events, 0 lost, 0 twice, no bit different",
        f"  to the next acknowledged write: p50 {statistics.median(times):.2f} s, worst {max(times):.2f} s",
    ]
    for kind in KINDS:
        own = [took for name, took in outcome.seconds if name == kind]
        if own:
            words.append(f"    {kind}: p50 {statistics.median(own):.2f} s, worst {max(own):.2f} s")
    words.append(
        f"  read elsewhere what was written: {outcome.read_before:,} of {outcome.read_before:,} right before failovers"
    )
    words.append(
        f"    during failovers {outcome.read_right:,} right, 0 wrong, "
        f"{outcome.read_late:,} where the replica said that it took too long"
    )
    return words
