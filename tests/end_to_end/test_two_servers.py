"""A log and what is known of it never part: a server that lost its store to another, files that do not belong together."""

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from served import SQLITE, STORES, Client, Home, homes, wait_until
from twin import check_bits

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytest_plugins = ["postgres_server"]


def taken_away(request: pytest.FixtureRequest, home: Home) -> None:
    """The right to write is lost, and whoever has it does not hear of it."""
    if home.url.startswith(SQLITE):
        (home.data / "lock").unlink()
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    server.end_sessions()


def insist(client: Client, path: str, body: object = None) -> None:
    """Send the same again as long as the store is said to be down."""
    wait_until(lambda: client.ask("POST", path, body).status != HTTPStatus.SERVICE_UNAVAILABLE)


def chose(user: str, item: str) -> dict[str, str]:
    return {"user": user, "item": item, "event_id": f"{user} chose {item}"}


@pytest.mark.parametrize("kind", STORES)
def test_what_another_server_acknowledged_meanwhile_is_known(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    home = homes(request, kind, tmp_path)
    with home.serve() as first:
        client = first.ready().client()
        client.done("POST", "/events", chose("ann", "i1"))
        # It looks at its log when it begins, and then once a minute: it would have its right again before the other comes.
        wait_until(lambda: b"coldstream_store_bytes " in client.ask("GET", "/metrics").body)
        taken_away(request, home)
        with home.serve() as second:
            other = second.ready().client()
            for item in ("i1", "i2", "i3"):
                other.done("POST", "/events", chose("bob", item))
            assert second.terminate() == 0
        insist(client, "/snapshot", {})
        insist(client, "/events", chose("cy", "i2"))
        assert client.ask("GET", "/users/bob").status == HTTPStatus.OK
        assert first.terminate() == 0
    assert len(home.lines()) == 6
    check_bits(home)
    with home.serve() as again:
        client = again.ready().client()
        for user in ("ann", "bob", "cy"):
            assert client.ask("GET", f"/users/{user}").status == HTTPStatus.OK
        assert again.terminate() == 0


def refused(home: Home) -> str:
    """What a server says that does not start."""
    with home.serve() as server:
        assert server.ended() == 2
        assert "Traceback" not in server.said()
        return server.said()


def test_a_log_that_ends_before_what_was_acknowledged_is_not_served(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    home = homes(request, SQLITE, tmp_path)
    with home.serve() as server:
        server.ready().client().done("POST", "/events", chose("ann", "i1"))
        assert server.terminate() == 0
    with home.serve() as server:
        client = server.ready().client()
        for item in ("i2", "i3", "i4"):
            client.done("POST", "/events", chose("ann", item))
        client.done("POST", "/snapshot", {})
        server.kill()
    newest = max((home.data / "snapshots").iterdir())
    (home.data / "log.sqlite-wal").unlink()
    said = refused(home)
    assert "does not have line 5, which was acknowledged" in said
    assert "put the newer files back" in said
    (home.data / "lock").unlink()
    said = refused(home)
    for part in (str(home.data / "log.sqlite"), "ends at line 2", str(newest), "up to line 5", "remove them"):
        assert part in said
    newest.unlink()
    with home.serve() as server:
        server.ready()
        assert server.logged("recovered")["position"] == 2
        assert server.terminate() == 0
