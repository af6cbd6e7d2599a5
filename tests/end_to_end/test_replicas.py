"""Several services on one database: the same bits everywhere, and nothing lost when one of them is."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from served import PATIENCE, POSTGRES, SCHEMA, Client, Gone, Home, Served, homes, wait_until
from twin import check_bits

from coldstream import client as coldstream_client
from coldstream.runtime.rule import LEARNING_RULE
from ports import free_port
from replicas import Cluster, check_log, role_of, shopping

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytest_plugins = ["postgres_server"]

CALM = ("--failover-seconds", 120, "--forward-seconds", 120)
"""Where no replica is lost: none takes over because a busy machine kept the writer from saying that it is there."""

OTHER_RULE = """
import sys
import coldstream.runtime.rule as rule
rule.LEARNING_RULE += 1
from coldstream.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return homes(request, POSTGRES, tmp_path)


@pytest.fixture
def cluster(home: Home) -> Iterator[Cluster]:
    cluster = Cluster(home)
    yield cluster
    cluster.close()


def ports(cluster: Cluster, *but: Served) -> list[int]:
    return [server.port for server in cluster.replicas if server not in but]


def test_all_replicas_hold_the_same_bits_and_know_what_was_acknowledged(cluster: Cluster, home: Home) -> None:
    # By itself the writer would take one after 400 of at least 500 lines; beside followers it waits for twice as many.
    first, often = cluster.add(*CALM, "--snapshot-events", 400), (*CALM, "--snapshot-events", 150)
    others = [cluster.add(*often), cluster.add(*often)]
    assert [role_of(server) for server in cluster.replicas] == ["writer", "follower", "follower"]
    with shopping(lambda: ports(cluster), connect=Client) as shoppers:
        wait_until(lambda: sum(shopper.read_right for shopper in shoppers) >= 500 or not all(s.is_alive() for s in shoppers))
    assert [shopper.failed for shopper in shoppers] == [[]] * len(shoppers)
    assert [shopper.read_wrong for shopper in shoppers] == [[]] * len(shoppers)
    assert check_log(shoppers, home.lines()) >= 500
    cluster.check_same()
    # A follower takes the snapshots, and the writer none.
    wait_until(lambda: any(server.log("a snapshot was written") for server in others))
    assert not first.log("a snapshot was written")
    # Every call is answered by a follower, and what it cannot know is said.
    client = others[0].client()
    health = client.done("GET", "/health")
    assert health["role"] == "follower"
    wait_until(lambda: client.done("GET", "/health")["lag"]["lines"] == 0)
    wait_until(lambda: client.done("GET", "/live")["service"]["lag"]["milliseconds"] < 5000)
    assert b"coldstream_writer 0.0" in client.done("GET", "/metrics")
    for path in ("/items", "/users", "/features", "/schema", "/evaluation"):
        client.done("GET", path)
    late = client.ask("POST", "/recommend", {"user": "s0-u1", "after": 10**9})
    assert late.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert "line 1000000000 of the log was not learned here within 2 s" in late.body["detail"]
    assert client.ask("POST", "/events", {"user": "ann"}).status == HTTPStatus.UNPROCESSABLE_ENTITY
    # Lines are passed on to the writer, and what is refused is told by its own number.
    events = [{"user": "kim", "item": "m1", "event_id": "k1"}, {}, *[{"user": "kim", "item": "m2", "event_id": "k2"}] * 2]
    with coldstream_client.Client(f"http://127.0.0.1:{others[0].port}", timeout=PATIENCE) as sender:
        answer = sender.import_events(events)
    assert (answer.taken, answer.duplicates, answer.refused) == (2, 1, 1)
    assert [one.line for one in answer.refusals] == [2]
    # A list that one has shown is known to another, and what was taken of it to all.
    shown = client.done("POST", "/recommend", {"user": "kim", "n": 2, "remember": True, "after": answer.position})
    name, wanted = shown["recommendation_id"], {"user": "kim", "n": 2, "after": answer.position}
    pages = others[1].client()
    wait_until(lambda: pages.ask("POST", "/recommend", {**wanted, "next_of": name}).status == HTTPStatus.OK)
    taken = {"user": "kim", "item": shown["items"][1]["item"], "recommendation_id": name}
    pages.done("POST", "/events", taken)
    wait_until(lambda: taken_at(first) == taken_at(others[1]) == [0, 1])
    # Who is forgotten is forgotten everywhere, and no snapshot of anybody knows them.
    client.done("PUT", "/users/s0-u1", {"attributes": {"city": "Nowhere-else"}})
    position = client.done("DELETE", "/users/s0-u1")["position"]
    gone = others[1].client().ask("GET", "/users/s0-u1", headers={"Coldstream-After": str(position)})
    assert gone.status == HTTPStatus.NOT_FOUND
    wait_until(lambda: b"coldstream_people_to_erase 0.0" in first.client().done("GET", "/metrics"))
    client.done("POST", "/snapshot", {})
    assert b"Nowhere-else" not in home.everything()
    cluster.check_same()
    command = [sys.executable, "-m", "coldstream", "verify", *home.flags, "--replica", f"http://127.0.0.1:{others[1].port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"replica http://127.0.0.1:{others[1].port} at line" in done.stdout
    assert "NOT" not in done.stdout


def taken_at(server: Served) -> list[int]:
    """How often something was taken, by position."""
    return [one["taken"] for one in server.client().done("GET", "/evaluation").get("positions", [])][:2]


def killed(_: "PostgresServer", server: Served) -> None:
    server.kill()


def stopped(_: "PostgresServer", server: Served) -> None:
    os.kill(server.pid, signal.SIGSTOP)


def without_sessions(postgres: "PostgresServer", _: Served) -> None:
    postgres.end_sessions()


def test_nothing_is_lost_and_nothing_twice_when_the_writer_is(
    cluster: Cluster, home: Home, postgres: "PostgresServer"
) -> None:
    for _ in range(3):
        cluster.add()
    first = cluster.writer()
    everybody = []
    for lose in (without_sessions, stopped, killed):
        first = cluster.writer()
        with shopping(lambda first=first: ports(cluster, first), prefix=lose.__name__) as shoppers:
            everybody += shoppers
            wait_until(lambda own=shoppers: all(len(shopper.acknowledged) > 20 for shopper in own))
            lost = time.monotonic()
            lose(postgres, first)
            wait_until(lambda own=shoppers, then=lost: all(shopper.times[-1] > then + 2 for shopper in own))
            if lose is stopped:
                assert cluster.writer_but(first) is not first
                os.kill(first.pid, signal.SIGCONT)
                wait_until(lambda first=first: role_of(first) == "follower")
        cluster.check_same()
    check_log(everybody, home.lines())
    assert [shopper.read_wrong for shopper in everybody] == [[]] * len(everybody)
    assert {server.terminate() for server in cluster.replicas if server.runs()} == {0}
    check_bits(home)


def test_a_deploy_behind_a_proxy_fails_no_request(cluster: Cluster, home: Home, tmp_path: Path) -> None:
    program = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    assert program, "no HAProxy: install Debian's package haproxy (as root, `make haproxy` does)"
    own = [free_port() for _ in range(4)]
    proxy = own.pop()

    def start(port: int) -> Served:
        return cluster.add(*CALM, "--port", port, "--drain-seconds", 2)

    servers = [start(port) for port in own]
    names = dict(zip(("PROXY", "ONE", "TWO", "THREE"), map(str, (proxy, *own)), strict=True))
    # A busy machine must not have a replica that is only slow taken for one that is gone.
    patient = "timeout connect 60s\n    timeout check 60s"
    file = Path(__file__).with_name("haproxy.cfg").read_text().replace("timeout connect 1s", patient)
    (tmp_path / "haproxy.cfg").write_text(file)
    command = [program, "-db", "-f", str(tmp_path / "haproxy.cfg")]
    with subprocess.Popen(command, env=os.environ | names, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as running:
        try:
            wait_until(lambda: answers(proxy))
            with shopping(lambda: [proxy], connect=Client) as shoppers:
                wait_until(lambda: all(shopper.acknowledged for shopper in shoppers))
                for number, port in enumerate(own):
                    assert servers[number].terminate() == 0
                    servers[number] = start(port)
                    wait_until(lambda server=servers[number]: role_of(server) is not None)
                reached = [len(shopper.acknowledged) for shopper in shoppers]
                wait_until(lambda: all(len(s.acknowledged) > n for s, n in zip(shoppers, reached, strict=True)))
        finally:
            running.terminate()
    assert [shopper.failed for shopper in shoppers] == [[]] * len(shoppers)
    assert [shopper.read_wrong for shopper in shoppers] == [[]] * len(shoppers)
    check_log(shoppers, home.lines())
    cluster.check_same()


def answers(port: int) -> bool:
    client = Client(port)
    try:
        return client.ask("GET", "/ready").status == HTTPStatus.OK
    except Gone:
        return False
    finally:
        client.close()


# What is refused, and how


def test_a_replica_that_learns_by_another_rule_is_refused_and_may_take_over_alone(cluster: Cluster, home: Home) -> None:
    first = cluster.add()
    first.client().done("POST", "/events", {"user": "ann", "item": "i1"})
    flags = ("serve", "--port", 0, "--schema", home.schema, *home.flags)
    command = [sys.executable, "-c", OTHER_RULE, *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    own, other = LEARNING_RULE, LEARNING_RULE + 1
    assert f"the log is learned by rule {own}, and this release learns by rule {other}" in done.stderr
    assert "Traceback" not in done.stderr
    assert first.terminate() == 0
    with ExitStack() as stack:
        renewed = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        stack.callback(renewed.kill)
        assert renewed.stderr is not None
        assert any('"ready"' in line for line in renewed.stderr)
        old = home.serve()
        cluster.replicas.append(old)
        assert old.ended() == 2
        assert f"the log is learned by rule {other}, and this release learns by rule {own}" in old.said()
        renewed.terminate()
        renewed.communicate(timeout=PATIENCE)


def test_a_replica_with_another_schema_is_refused_and_one_that_declares_more_waits(cluster: Cluster, home: Home) -> None:
    cluster.add()
    home.schema.write_text(SCHEMA.replace('city = { kind = "category" }\n', ""))
    other = home.serve()
    cluster.replicas.append(other)
    assert other.ended() == 2
    assert "user field 'city' was declared before and is missing now" in other.said()
    home.schema.write_text(SCHEMA.replace("[user]\n", '[user]\nplan = { kind = "category" }\n'))
    third = cluster.add()
    assert "plan" not in third.client().done("GET", "/schema")["user"]
    cluster.replicas[0].kill()
    wait_until(lambda: role_of(third) == "writer")
    assert "plan" in third.client().done("GET", "/schema")["user"]
    third.client().done("PUT", "/users/ann", {"attributes": {"plan": "pro"}})


def test_a_writer_that_nobody_can_reach_is_said_to_be(cluster: Cluster, home: Home) -> None:
    cluster.add("--announce", f"127.0.0.1:{free_port()}")
    follower = cluster.add("--forward-seconds", 0.5)
    answer = follower.client().ask("POST", "/events", {"user": "ann", "item": "i1"})
    assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert "no writer could be reached in 0.5 s" in answer.body["detail"]
    assert "127.0.0.1" not in answer.body["detail"]
    assert follower.logged("no writer can be reached")["address"].startswith("127.0.0.1:")
    assert follower.client().done("POST", "/recommend", {"user": "ann"}) == {"items": []}
    with psycopg.connect(home.url) as connection:
        ((lines,),) = connection.execute("SELECT last FROM coldstream_meta")
    assert lines == 1
