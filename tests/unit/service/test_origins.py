"""Where there are no keys, a page of another origin can neither do nor learn anything through somebody's browser."""

from collections.abc import Iterator

import pytest
from api import Api

from coldstream.service.http.keys import Key, Keys, hashed
from coldstream.service.http.routes import ROUTES

HOST = "localhost:8000"
ELSEWHERE = [
    {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "object"},
    {"origin": "https://evil.example"},
    {"origin": "http://localhost"},
    {"origin": "http://localhost:8000.evil.example"},
    {"origin": "null"},
]
"""What browsers send for other pages, those before `Sec-Fetch-Site` too."""
OWN = [
    {},
    {"origin": "http://localhost:8000", "sec-fetch-site": "same-origin"},
    {"origin": "http://LOCALHOST:8000"},
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"},
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("origins")).start()
    served.call("PUT", "/users/known", {})
    yield served
    served.stop()


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
def test_a_page_of_another_origin_can_neither_do_nor_learn_anything(api: Api, headers: dict[str, str]) -> None:
    position = api.service.learner.position
    given = {"host": HOST, **headers}
    refusals = set()
    for route in ROUTES:
        if route.scope is None:
            continue
        for name in ("known", "unknown"):
            answer = api.call(route.method, route.path.replace("{id}", name), {}, given)
            assert answer.status == 403, (route.method, route.path)
            refusals.add(answer.body)
    assert len(refusals) == 1
    assert b"set keys" in refusals.pop()
    assert api.service.learner.position == position


@pytest.mark.parametrize("headers", OWN, ids=str)
def test_the_page_of_the_service_and_other_programs_are_answered(api: Api, headers: dict[str, str]) -> None:
    assert api.call("POST", "/recommend", {}, {"host": HOST, **headers}).status == 200
    assert api.call("GET", "/users/known", None, {"host": HOST, **headers}).status == 200


def test_a_link_to_the_page_itself_works_from_anywhere(api: Api) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert api.call("GET", "/", None, headers).status == 200


@pytest.mark.parametrize("path", ["/users/known", "/users/unknown", "/health", "/", "/openapi.json", "/metrics"])
def test_no_answer_may_be_taken_into_a_page_of_another_origin(api: Api, path: str) -> None:
    assert api.call("GET", path).headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("route", [r for r in ROUTES if r.method in ("POST", "PUT")], ids=lambda r: f"{r.method} {r.path}")
@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_whatever_writes_must_say_json_even_where_it_says_nothing_else(api: Api, route: object, kind: str) -> None:
    position = api.service.learner.position
    path = route.path.replace("{id}", "x")  # type: ignore[attr-defined]
    answer = api.call(route.method, path, None, {"content-type": kind})  # type: ignore[attr-defined]
    assert answer.status == 415
    assert "application/json" in answer.json["detail"]
    assert api.service.learner.position == position


def test_a_snapshot_needs_no_body_but_takes_an_empty_object(api: Api) -> None:
    assert api.call("POST", "/snapshot").status == 200
    assert api.call("POST", "/snapshot", {}).status == 200
    assert api.call("POST", "/snapshot", {"now": True}).status == 422


def test_with_keys_the_key_is_what_counts(tmp_path_factory: pytest.TempPathFactory) -> None:
    api = Api(tmp_path_factory.mktemp("keys"), Keys([Key("shop", ("read",), hashed("cs_shop"))])).start()
    try:
        headers = {"origin": "https://shop.example", "sec-fetch-site": "cross-site"}
        assert api.call("POST", "/recommend", {}, headers).status == 401
        assert api.call("POST", "/recommend", {}, {**headers, "authorization": "Bearer cs_shop"}).status == 200
    finally:
        api.stop()


HOSTS = ["localhost", "LOCALHOST", "LocalHost:8000", "127.0.0.1", "127.8.0.1:80", "[::1]", "[::1]:8000", "localhost:"]
NOT_HOSTS = [
    *("[::1]evil.com", "[::1].evil.com", "[::1]:80evil.com", "[::1", "::1", "[::1]x:80", "[::2]"),
    *("localhost.evil.com", "evil.com", "localhost:80:80", "localhost:80@evil.com", "localhost:x", "127.0.0.1.evil.com"),
    *("127.0.0.1evil.com", "xlocalhost", "localhost evil.com", "localhost\u00e9", "127.1", "localhost,evil.com"),
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_of_this_machine_is_answered_however_it_is_written(api: Api, host: str) -> None:
    assert api.call("POST", "/recommend", {}, {"host": host}).status == 200


@pytest.mark.parametrize("host", NOT_HOSTS)
def test_what_only_looks_like_a_name_of_this_machine_is_not(api: Api, host: str) -> None:
    assert api.call("POST", "/recommend", {}, {"host": host}).status == 421


# Paths and methods


@pytest.mark.parametrize("path", ["/", "/openapi.json", "/assets/main.js"])
def test_a_page_is_only_read(api: Api, path: str) -> None:
    for method in ("GET", "HEAD"):
        assert api.call(method, path).status == 200
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
        answer = api.call(method, path, {})
        assert answer.status == 405
        assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
        assert answer.json["detail"]


@pytest.mark.parametrize("prefix", ["/%75sers/", "/users%2F", "/users%2f", "/%2fusers/", "/user%73/"])
def test_a_path_that_is_encoded_where_it_need_not_be_erases_nobody(api: Api, prefix: str) -> None:
    for name in ("bob", "s/bob", "rs/bob"):
        api.call("PUT", f"/users/{name.replace('/', '%2F')}", {})
    before = set(api.service.recommender.users())
    assert api.call("DELETE", f"{prefix}bob", decoded=True).status == 404
    assert set(api.service.recommender.users()) == before


@pytest.mark.parametrize("name", ["host", "content-type", "authorization", "origin"])
def test_a_header_that_decides_something_is_there_once(api: Api, name: str) -> None:
    first = {"host": HOST, "content-type": "application/json", "origin": f"http://{HOST}", "authorization": "x"}[name]
    more = {"host": HOST, "origin": f"http://{HOST}", "authorization": "x", name: first, name.upper(): "other"}
    answer = api.call("POST", "/recommend", {}, more)
    assert answer.status == 400
    assert name in answer.json["detail"].lower()
