"""Learners on real Ray: several nodes on this machine, some of which go."""

import asyncio
import os
import platform
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from own_writes import put_items, unread
from served import Home, wait_until

from coldstream import Categories, Category, Id, Schema
from coldstream.cluster.ray.learners import RayLearners
from coldstream.cluster.team import HIRE_HERE, team_of
from coldstream.config import Hyperparameters
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, Record, UserPut
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.team import Hiring
from coldstream.runtime.verification import verified
from coldstream.runtime.writing.writer import Writer
from coldstream.snapshots.increments import State
from coldstream.storage import stores
from coldstream.storage.sqlite.store import SqliteStore
from conftest import bits

pytestmark = pytest.mark.filterwarnings("ignore")

SCHEMA = Schema(user=[Id(), Category("city")], item=[Id(), Categories("genre")], context=[Category("device")])
SMALL = Hyperparameters(factors=8, negatives=5)
ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TMPDIR": "/tmp",  # pytest's folders are too long for the names of sockets
    "RAY_worker_niceness": "0",
}
LIMITS = WriterLimits(merge_events=40, merge_seconds=0.2, snapshot_lines=300, snapshot_seconds=0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of three nodes, two of them with addresses of their own, and this process connected to it."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in ENVIRONMENT.items():
            environment.setenv(name, value)
        import ray
        from ray.cluster_utils import Cluster

        small = {"object_store_memory": 2**27, "include_dashboard": False}
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
        try:
            for last in (2, 3):
                started.add_node(num_cpus=2, node_ip_address=f"127.0.0.{last}", object_store_memory=2**27)
            ray.init(address=started.address, log_to_driver=False, configure_logging=False)
            yield started
        finally:
            ray.shutdown()
            started.shutdown()


def records(events: int, seed: int) -> Iterator[Record]:
    rng = np.random.default_rng(seed)
    for number in range(events):
        user, item = f"u{rng.integers(40)}", f"i{rng.integers(30)}"
        if rng.random() < 0.1:
            yield UserPut(user, {"city": f"c{rng.integers(3)}"})
        if rng.random() < 0.1:
            yield ItemPut(item, {"genre": [f"g{rng.integers(4)}"]})
        yield Interaction(user, item, float(1_000_000 + number), {"device": f"d{rng.integers(3)}"}, f"{seed}-{number}")


class Lived:
    """A writer whose learners are on Ray, and all that it has acknowledged."""

    def __init__(self, store: SqliteStore, folder: Path, hire: Callable[[State, int], RayLearners], learners: int) -> None:
        requested = RequestedModel(SCHEMA, SMALL, 0, learners=learners, hiring=Hiring(team_of(hire), HIRE_HERE))
        self.store, self.folder, self.acknowledged = store, folder, 0
        self.writer = Writer(store, recovered(store, requested), LIMITS, folder)

    async def write(self, given: list[Record]) -> None:
        """Write in calls of seven; whoever was answered reads what was written at once."""
        for first in range(0, len(given), 7):
            some = given[first : first + 7]
            positions = await self.writer.write(some)
            self.acknowledged += sum(position is not None for position in positions)
            last = next((one for one in reversed(some) if isinstance(one, Interaction)), None)
            if last is not None:
                known = self.writer.learner.recommender
                assert last.item not in [best.item for best in known.recommend(last.user, 30)]


def test_ray_leads_to_the_bits_of_one_process(cluster: Any) -> None:
    import ray

    from coldstream import Recommender
    from coldstream.cluster.learners import LocalLearners
    from coldstream.cluster.lines import Lines

    log = list(enumerate(records(200, 5), 1))
    state = Recommender(SCHEMA, SMALL, seed=0).state()
    found = []
    for make in (LocalLearners, partial(RayLearners, ray)):
        learners = make(state, 3)
        for first in range(0, len(log), 90):
            some = log[first : first + 90]
            learners.take(Lines.of(some))
            for upto in (len(some) // 2, len(some)):
                learners.learn(upto)
                learners.merge()
        found.append([bits(Recommender.from_state(*one)) for one in learners.states()])
        learners.close()
    assert found[0] == found[1]


def test_learners_and_nodes_go_and_every_event_is_learned_once(cluster: Any, tmp_path: Path) -> None:
    import ray

    hired: list[RayLearners] = []

    def hire(state: Any, count: int) -> RayLearners:
        hired.append(RayLearners(ray, state, count))
        return hired[-1]

    seconds: dict[str, float] = {}

    async def lives(store: SqliteStore, disturbances: dict[str, Any], seed: int, learners: int) -> int:
        lived = Lived(store, tmp_path, hire, learners)
        await lived.writer.start(lambda: None)
        await lived.write(list(records(120, seed)))
        for number, (name, disturb) in enumerate(disturbances.items(), 1):
            before = len(hired)
            disturb()
            started = monotonic()
            while len(hired) == before:  # as long as nobody has noticed, and until others learn
                await lived.write(list(records(20, 1000 * seed + 100 * number + int(10 * (monotonic() - started)))))
                await asyncio.sleep(0.05)
            seconds[name] = monotonic() - started
            await lived.write(list(records(100, 2000 * seed + number)))
        await lived.writer.stop()
        assert lived.writer.failed is None
        return lived.acknowledged

    def kill_a_learner() -> None:
        os.kill(hired[-1].places[0][1], signal.SIGKILL)

    def remove_a_node() -> None:
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)

    with closing(SqliteStore(tmp_path / "data")) as store:
        acknowledged = asyncio.run(lives(store, {"learner": kill_a_learner}, 1, 2))
    with closing(SqliteStore(tmp_path / "data")) as store:  # all of it begins again
        acknowledged += asyncio.run(lives(store, {"node": remove_a_node}, 2, 2))
    print("recovered after", {name: round(one, 1) for name, one in seconds.items()})
    with closing(stores.inspected(f"sqlite:{tmp_path / 'data'}")) as view:
        verdict = verified(view, recent=False, advance=lambda _: None, here=HIRE_HERE)
        assert verdict.same
        assert not verdict.different
        events = sum(b'"kind":"event"' in entry.body for entry in view.read(0))
    with closing(SqliteStore(tmp_path / "data")) as store:
        here: Learner = recovered(
            store, RequestedModel(SCHEMA, SMALL, 0, learners=2, hiring=Hiring(here=HIRE_HERE))
        )  # in this process alone
        assert here.recommender.events == events
        assert len(bits(here.recommender)[1]) > 10


def test_a_service_whose_learners_are_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    home = Home(tmp_path, f"sqlite:{tmp_path / 'data'}")
    flags = ("--engine", "ray", "--learners", 2, "--merge-events", 50, "--snapshot-events", 400)
    with home.serve(*flags) as server:
        put_items(server.ready())
        assert unread(server, 200, 4) == []
        _, pid = server.log("learners began")[-1]["where"][0].split()
        os.kill(int(pid), signal.SIGKILL)
        assert unread(server, 100, 2, seed=1) == []
        wait_until(lambda: len(server.log("learners began")) > 1)
        assert unread(server, 40, 2, seed=2) == []
        assert server.terminate() == 0, server.said()
    events = sum(line["kind"] == "event" for line in home.lines().values())
    assert events == 5 * 340
    assert "Traceback" not in server.said()
    with home.serve("--learners", 2) as server:  # the same learners, in the process itself
        assert server.ready().client().done("GET", "/evaluation")["events"] == events
        assert server.terminate() == 0
    assert "same" in home.verify()


def test_a_node_with_another_release_or_none_is_named(cluster: Any, tmp_path: Path) -> None:
    """A node whose Python finds another coldstream first, as it would be after an upgrade of the others."""
    import ray

    from coldstream import Recommender, __version__
    from coldstream.cluster.ray.session import EngineUnavailable

    package = tmp_path / "coldstream"
    package.mkdir()
    (package / "__init__.py").write_text('__version__ = "0.0.1"\n')
    state = Recommender(SCHEMA, SMALL, seed=0).state()
    others = int(ray.cluster_resources()["CPU"])
    odd = cluster.add_node(
        num_cpus=1, node_ip_address="127.0.0.4", object_store_memory=2**27, env_vars={"PYTHONPATH": str(tmp_path)}
    )
    try:
        cluster.wait_for_nodes()
        with pytest.raises(
            EngineUnavailable, match=rf"coldstream is {__version__} here and 0\.0\.1 on node 127\.0\.0\.4; inst"
        ):
            RayLearners(ray, state, others + 1)
        (package / "__init__.py").write_text("import there_is_no_such_module\n")
        with pytest.raises(
            EngineUnavailable, match=r"cannot be loaded on node 127\.0\.0\.4 .*there_is_no_such_module.*; inst"
        ):
            RayLearners(ray, state, others + 1)
    finally:
        cluster.remove_node(odd)


def test_what_is_wrong_with_a_cluster_is_said(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from coldstream.cluster.ray import session
    from coldstream.cluster.ray.session import EngineUnavailable, check_same, connected

    with pytest.raises(
        EngineUnavailable, match=r"learning rule is \d+ here and 0 on node 10.0.0.2; install the same release"
    ):
        check_same("10.0.0.2", {**session.about(), "learning rule": 0})
    ray.shutdown()
    python, own = platform.python_version(), ray.__version__
    for here, words in (
        (("1.0.0", python), rf"together, Ray {own} and Python {python} there and Ray 1\.0\.0 and Python {python} here; use"),
        (
            (own, "3.9.1"),
            rf"together, Ray {own} and Python {python} there and Ray {own} and Python 3\.9\.1 here; use the same",
        ),
    ):
        with monkeypatch.context() as other:
            other.setattr("ray._private.utils.compute_version_info", lambda here=here: here)
            with pytest.raises(EngineUnavailable, match=words), connected(cluster.address, 1):
                pass
    ray.shutdown()
    with (
        pytest.raises(EngineUnavailable, match=r"no Ray cluster answers there.*ray start --head"),
        connected("127.0.0.9:1", 1),
    ):
        pass
