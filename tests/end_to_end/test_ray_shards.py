"""Shards of the catalogue on real Ray, some of which are killed."""

import os
import re
import signal
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
from own_writes import put_items, unread
from served import Home, Served, wait_until

from coldstream import Categories, Event, Follows, Id, Recommender, Schema, Together
from coldstream.engines.ray.session import connected
from coldstream.engines.ray.shards import RayShards
from coldstream.scoring import sharded_scan
from coldstream.scoring.scorer import scorer_of

pytestmark = pytest.mark.filterwarnings("ignore")

ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TMPDIR": "/tmp",  # pytest's folders are too long for the names of sockets
    "RAY_worker_niceness": "0",
}
SCHEMA = Schema(item=[Id(), Categories("genre"), Follows(), Together(length=2)])


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def check_same(own: Recommender) -> None:
    shared = own._shared
    here, clock = scorer_of(shared.machine, shared.catalogue), own.events
    mask = np.zeros(len(shared.catalogue.ids), np.uint8)
    mask[::5] = 1
    asked = [own.encode_request(f"u{n}", 20 * n + 5, exclude_seen=n > 0)._replace(excluded=mask) for n in range(3)]
    assert shared.scorer.top(asked, clock) == here.top(asked, clock)
    assert shared.scorer.rank(asked[1], 7, clock) == here.rank(asked[1], 7, clock)
    assert shared.scorer.score(asked[2], 8, clock) == here.score(asked[2], 8, clock)


def test_shards_on_ray_have_the_bits_of_one_scan_and_one_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded_scan, "AGAIN_AFTER", 0.0)
    monkeypatch.setattr(sharded_scan, "MOST_TOLD", 100)
    own = Recommender(SCHEMA, seed=1, factors=6)
    own.put_items((f"i{n}", {"genre": [f"g{n % 4}", f"s{n}"]}) for n in range(700))
    for n in range(30):
        own.learn(Event(f"u{n % 3}", f"i{7 * n}"))

    def answered_by_shards() -> RayShards:
        until = monotonic() + 240
        while not own.shards:
            check_same(own)  # whoever answers
            assert monotonic() < until
            sleep(0.05)
        found = own._sharded._shards  # type: ignore[union-attr]
        assert isinstance(found, RayShards)
        return found

    with connected(None, 2) as ray:
        own.scan_in_shards(partial(RayShards, ray, 2))
        first = answered_by_shards()
        assert len({pid for _, pid in first.places}) == 2
        own.learn(Event("u0", "i3"))
        own.remove_item("i9")
        own.put_item("new", {"genre": ["g1"]})
        check_same(own)
        assert own.shards == 2
        os.kill(first.places[1][1], signal.SIGKILL)
        check_same(own)
        until = monotonic() + 240
        while own.shards:  # the cluster has noticed
            check_same(own)
            assert monotonic() < until
        own.learn(Event("u1", "i4"))
        second = answered_by_shards()
        assert second is not first
        check_same(own)
        own.scan_in_shards(None)
        check_same(own)


def shards(server: Served) -> float:
    """How many scan, by the service's own account."""
    text = server.client().done("GET", "/metrics").decode()
    return float(re.findall(r"^coldstream_shards (\S+)$", text, re.MULTILINE)[0])


def test_a_service_whose_catalogue_is_in_shards_on_ray(tmp_path: Path) -> None:
    home = Home(tmp_path, f"sqlite:{tmp_path / 'data'}")
    with home.serve("--engine", "ray", "--learners", 1, "--shards", 2, "--merge-events", 50) as server:
        put_items(server.ready())
        wait_until(lambda: shards(server) == 2)
        assert unread(server, 60, 2) == []
        wait_until(lambda: shards(server) == 2)
        pid = server.log("shards began")[-1]["where"][0].split()[1]
        os.kill(int(pid), signal.SIGKILL)
        assert unread(server, 40, 2, seed=1) == []  # whoever asks is answered, by the process in front
        wait_until(lambda: len(server.log("shards began")) > 1)
        wait_until(lambda: shards(server) == 2)
        evaluation = server.client().done("GET", "/evaluation")
        assert evaluation["tested"] > 0
        asked = {"user": "0-0-0", "n": 20}
        in_shards = server.client().done("POST", "/recommend", asked)["items"]
        assert server.terminate() == 0, server.said()
    assert "Traceback" not in server.said()
    with home.serve() as server:
        assert server.ready().client().done("POST", "/recommend", asked)["items"] == in_shards
        assert server.terminate() == 0
