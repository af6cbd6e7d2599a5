"""Who may come in, call by call."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api import Api

from coldstream.service.http.gate import Gate
from coldstream.service.http.keys import SCOPES, Key, Keys, hashed
from coldstream.service.http.problems import Problem
from coldstream.service.http.rates import Rates
from coldstream.service.http.routes import ROUTES, Route

PRESENTED = {scope: f"cs_{scope}" for scope in SCOPES}
KEYS = Keys([Key(scope, (scope,), hashed(presented)) for scope, presented in PRESENTED.items()])


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("gate"), KEYS).start()
    yield served
    served.stop()


def status(api: Api, route: Route, authorization: str) -> int:
    answer = api.call(route.method, route.path.replace("{id}", "x"), {}, {"authorization": authorization})
    if answer.status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
    return answer.status


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_key_opens_what_its_scope_says_and_nothing_else(api: Api, route: Route) -> None:
    for scope, presented in PRESENTED.items():
        refused = status(api, route, f"Bearer {presented}") == 403
        assert refused == (route.scope not in (scope, None))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Bearer cs_wrong", "Basic cs_read", "cs_read", "Bearer cs_réad"]
)
def test_without_a_known_key_nothing_is_told(api: Api, route: Route, authorization: str) -> None:
    assert (status(api, route, authorization) == 401) == (route.scope is not None)


def test_the_table_asks_for_the_scopes_it_should(api: Api) -> None:
    needed = {(route.method, route.path): route.scope for route in ROUTES}
    assert {call for call, scope in needed.items() if scope is None} == {("GET", "/health"), ("GET", "/ready")}
    assert all(scope == "admin" for (method, _), scope in needed.items() if method == "DELETE")
    assert needed["POST", "/snapshot"] == "admin"
    assert {path for (method, path), scope in needed.items() if scope == "write"} == {
        *("/events", "/items", "/users", "/items/{id}", "/users/{id}", "/users/{id}/merge")
    }


def test_with_keys_any_host_is_answered(api: Api) -> None:
    headers = {"host": "recommend.example.com", "authorization": "bearer cs_read"}
    assert api.call("POST", "/recommend", {}, headers).status == 200


@pytest.mark.parametrize(("rate", "seconds"), [(4.0, "1"), (1.0, "1"), (0.4, "3"), (0.5, "2")])
def test_who_comes_back_when_told_is_not_too_soon_again(rate: float, seconds: str) -> None:
    gate = Gate(KEYS, Rates(rate, clock=lambda: 0.0))
    headers = {b"authorization": b"Bearer cs_read"}
    for _ in range(max(1, int(rate))):
        gate.admit({}, headers, "read")
    with pytest.raises(Problem) as refused:
        gate.admit({}, headers, "read")
    assert refused.value.status == 429
    assert refused.value.headers["Retry-After"] == seconds


def test_a_key_that_comes_too_often_has_to_wait_and_others_do_not(tmp_path: Path) -> None:
    api = Api(tmp_path, KEYS, rate=0.5).start()

    def asked(scope: str, method: str, path: str, body: Any) -> Any:
        return api.call(method, path, body, {"authorization": f"Bearer {PRESENTED[scope]}"})

    assert asked("read", "POST", "/recommend", {}).status == 200
    late = asked("read", "POST", "/recommend", {})
    assert late.status == 429
    assert 1 <= int(late.headers["retry-after"]) <= 2
    assert asked("write", "PUT", "/items/i", {}).status == 200
    assert asked("read", "GET", "/health", None).status == 200
    api.stop()
