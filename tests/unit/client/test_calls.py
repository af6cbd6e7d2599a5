"""Every route is a method of both clients: what they send is what the service takes, and answers come back typed."""

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

sys.path.append(str(Path(__file__).parents[1] / "service"))
from api import SCHEMA, Api

from coldstream import InvalidInput
from coldstream.client import (
    AsyncClient,
    Client,
    Found,
    NewEvent,
    NewItem,
    NewUser,
    Page,
    Recommendations,
    Retries,
    Retry,
    RulesBody,
    ServiceError,
    ServiceUnavailable,
    calls,
)
from coldstream.client.call import LINES, Call, Steps
from coldstream.service.http.routes import ROUTES, Route
from coldstream.service.messages import core as messages
from coldstream.service.messages import recommend as recommend_messages
from coldstream.service.messages.core import LinesTaken

NOW = 1_800_000_000.0
QUICK = Retries(most=3, first=0.001, longest=0.001)
JAZZ = {"genre": ["jazz"]}

USES: dict[str, Callable[[Any], Any]] = {
    "put_fields": lambda c: c.put_fields(context={"hour": {"kind": "number", "low": 0, "high": 24}}),
    "put_items": lambda c: c.put_items({f"i{n}": JAZZ for n in range(9)}),
    "put_item": lambda c: c.put_item("i/9", JAZZ, available_from=1.0, available_until=NOW * 2, hidden=False),
    "put_users": lambda c: c.put_users([NewUser(f"u{n}", {"country": "Peru"}) for n in range(5)]),
    "put_user": lambda c: c.put_user("ann b", {"country": "Chile"}),
    "import_items": lambda c: c.import_items([NewItem("j1"), {"id": "j2", "attributes": JAZZ}]),
    "import_users": lambda c: c.import_users([NewUser("v1"), {"id": "v2"}]),
    "learn": lambda c: c.learn([NewEvent(f"u{n}", f"i{n}", time=NOW + n) for n in range(5)]),
    "import_events": lambda c: c.import_events([NewEvent("guest", "i1"), {"user": "u1", "item": "i2", "time": NOW}]),
    "merge_user": lambda c: c.merge_user("ann b", "guest"),
    "recommend": lambda c: c.recommend(
        "u1", 3, context={"device": "phone"}, time=NOW, attributes={"country": "Peru"}, exclude_seen=False,
        allow=(f"i{n}" for n in range(8)), deny=["i7"], where=JAZZ, describe=True, explain=True, remember=True,
        rules=RulesBody(diversity=0.5), history=None, next_of=None, after=1,
    ),
    "explain": lambda c: c.explain("u1", "i1", context={"device": "phone"}, time=NOW, attributes={}, after=1),
    "similar": lambda c: c.similar("i1", 3, where=JAZZ, time=NOW, describe=True, after=1),
    "trending": lambda c: c.trending(3, half_life=100.0, where={"price": {"max": 3}}, time=NOW, describe=True),
    "newest": lambda c: c.newest(3, where=JAZZ, time=NOW, describe=True),
    "item": lambda c: c.item("i/9", after=1),
    "user": lambda c: c.user("ann b", after=1),
    "find_items": lambda c: c.find_items("I", limit=4, after=1),
    "find_users": lambda c: c.find_users("U", limit=2, after=1),
    "find_features": lambda c: c.find_features("jazz", limit=1, field="item.genre"),
    "nearest": lambda c: c.nearest("item.genre=jazz", 2),
    "changed": lambda c: c.changed(2),
    "schema": lambda c: c.schema(values=1),
    "evaluation": lambda c: c.evaluation(),
    "live": lambda c: c.live(-1),
    "metrics": lambda c: c.metrics(),
    "fingerprint": lambda c: c.fingerprint(),
    "snapshot": lambda c: c.snapshot(),
    "health": lambda c: c.health(),
    "ready": lambda c: c.ready(),
    "remove_item": lambda c: c.remove_item("i/9"),
    "forget_user": lambda c: c.forget_user("ann b"),
}  # fmt: skip
"""Every method, used once, in an order that a service takes."""

NOT_OFFERED = {"/schema": {"limit", "after"}}
"""Fields of queries that the client fills in itself, because it reads all pages."""


def public(cls: type) -> set[str]:
    """The methods that are calls of the service."""
    return {name for name in dir(cls) if not name.startswith("_") and hasattr(getattr(cls, name), "__wrapped__")}


class Noting(calls.Calls[httpx.Client]):
    """A client that sends nothing: a method gives the first call that it would send."""

    def __init__(self) -> None:
        super().__init__(
            lambda: httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(500))), None, False, None
        )

    def _run(self, steps: Steps[Any]) -> Call[Any]:
        call = next(steps)
        assert isinstance(call, Call)
        return call


def route_of(name: str) -> tuple[Route, Call[Any]]:
    call = USES[name](Noting())
    (route,) = [one for one in ROUTES if (one.method, one.path) == (call.method, call.path)]
    return route, call


# Client and routes


def test_every_route_has_a_method_and_every_method_is_tried_here() -> None:
    assert public(Client) == public(AsyncClient) == set(USES)
    asked = {(route.method, route.path) for route, _ in map(route_of, USES)}
    assert asked == {(route.method, route.path) for route in ROUTES}
    lines = {route.path for route, call in map(route_of, USES) if call.kind == LINES}
    assert lines == {route.path for route in ROUTES if route.line is not None}


def test_the_guide_has_every_method() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "client.md").read_text(encoding="utf-8")
    assert [name for name in [*USES, "missing_ok", "on_retry"] if f"`{name}" not in guide] == []
    assert "client.next_page(" in guide
    assert "client.pages(" in guide


@pytest.mark.parametrize("name", USES)
def test_a_call_is_as_its_route_says(name: str) -> None:
    route, call = route_of(name)
    assert call.gives is (route.gives if call.kind != LINES else LinesTaken)
    assert call.writes == route.writes
    assert call.reads == (route.scope == "read" and route.path not in ("/live", "/metrics"))
    assert (call.id is not None) == ("{id}" in route.path)
    if call.kind == LINES:
        assert route.line is not None
        for line in (call.body or b"").splitlines():
            msgspec.json.decode(line, type=route.line.message)
    elif call.body is not None:
        msgspec.json.decode(call.body, type=route.takes)
    elif route.takes is not None:
        msgspec.convert(dict(call.query), route.takes, strict=False)
    else:
        assert not call.query


@pytest.mark.parametrize("name", USES)
def test_whatever_a_route_takes_is_a_parameter_of_the_method(name: str) -> None:
    route, _ = route_of(name)
    if isinstance(route.takes, type) and issubclass(route.takes, msgspec.Struct):
        parameters = set(inspect.signature(getattr(Client, name)).parameters)
        assert set(route.takes.__struct_fields__) - NOT_OFFERED.get(route.path, set()) <= parameters


@pytest.mark.parametrize("cls", [Client, AsyncClient])
def test_help_names_the_parameters_and_the_answer_of_a_method(cls: type) -> None:
    told = inspect.signature(cls.learn)  # type: ignore[attr-defined]
    assert list(told.parameters) == ["self", "events", "source"]
    assert told.return_annotation is messages.Learned
    for name in public(cls):
        method = getattr(cls, name)
        assert inspect.isfunction(method)
        lost = [one for one in inspect.signature(method).parameters if f"`{one}`" not in str(method.__doc__)]
        assert lost == ["self"], name


# Against the service, with both clients


class Service:
    """A service in this process, and both clients of it."""

    def __init__(self, api: Api) -> None:
        self.api, self.lost, self.seen = api, 0, list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        path = request.url.raw_path.decode()
        answer = self.api.call(request.method, path, raw=request.content, headers=dict(request.headers))
        if self.lost:
            self.lost -= 1
            raise httpx.ReadTimeout("lost")
        return httpx.Response(answer.status, headers=answer.headers, content=answer.body)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    api = Api(tmp_path, schema=SCHEMA).start()
    yield Service(api)
    api.stop()


KINDS: dict[str, Any] = {"sync": Client, "async": AsyncClient}


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Make a client of each kind, whose network is a function."""

    def make(network: Callable[[httpx.Request], httpx.Response], **more: Any) -> Any:
        return KINDS[request.param](transport=httpx.MockTransport(network), **{"retries": QUICK, **more})

    return make


def done(answer: Any) -> Any:
    """The answer of a method, awaited where it has to be."""

    async def wait() -> Any:
        return await answer

    return asyncio.run(wait()) if inspect.isawaitable(answer) else answer


def pages(client: Any, first: Any) -> list[Any]:
    async def collect() -> list[Any]:
        return [page async for page in client.pages(first)]

    return asyncio.run(collect()) if isinstance(client, AsyncClient) else list(client.pages(first))


def test_every_method_is_answered_with_its_type(service: Service, made: Callable[..., Any]) -> None:
    client = made(service)
    listed = (recommend_messages.RecommendResponse, recommend_messages.ItemList)
    for name, use in USES.items():
        answer, (route, call) = done(use(client)), route_of(name)
        if name == "metrics":
            assert "coldstream_" in answer
        elif route.gives in listed or name.startswith("find_"):
            assert isinstance(answer, Page), name
        else:
            assert type(answer) is call.gives, name
    assert done(client.item("i1")).attributes == JAZZ
    with pytest.raises(ServiceError, match="404"):
        done(client.user("ann b"))


def test_recommendations_iterate_and_have_positions_across_pages(service: Service, made: Callable[..., Any]) -> None:
    client = made(service)
    done(client.put_items({f"i{n}": {} for n in range(7)}))
    best = done(client.recommend("u", 3, remember=True))
    assert isinstance(best, Recommendations)
    assert [one.position for one in best] == [1, 2, 3]
    assert len(best) == 3
    assert best[0] is best.items[0]
    assert best.recommendation_id
    read = pages(client, best)
    assert [[one.position for one in page] for page in read] == [[1, 2, 3], [4, 5, 6], [7]]
    assert len({one.item for page in read for one in page}) == 7
    assert len({page.recommendation_id for page in read}) == 3
    # A program that has kept the id alone goes on with the same positions.
    (again, *_) = done(client.recommend("u", 3, next_of=best.recommendation_id))
    assert (again.position, again.item) == (4, read[1][0].item)
    event = NewEvent("u", again.item, recommendation_id=read[1].recommendation_id)
    assert done(client.learn(event)).learned == 1
    # Without `remember` there is no next page.
    plain = done(client.recommend("u", 3))
    assert plain.recommendation_id is None
    assert done(client.next_page(plain)) is None
    assert [one.position for one in done(client.next_page(best))] == [4, 5, 6]


def test_searches_have_next_pages(service: Service, made: Callable[..., Any]) -> None:
    client = made(service)
    done(client.put_items({f"i{n}": JAZZ for n in range(5)}))
    done(client.put_users({f"u{n}": {} for n in range(5)}))
    items = pages(client, done(client.find_items(limit=2)))
    assert [[one.id for one in page] for page in items] == [["i0", "i1"], ["i2", "i3"], ["i4"]]
    assert isinstance(items[0], Found)
    assert items[0].total == 5
    users = pages(client, done(client.find_users(limit=3)))
    assert sorted(one for page in users for one in page) == [f"u{n}" for n in range(5)]
    assert users[0].cursor is not None
    assert done(client.find_users(limit=3, cursor=users[0].cursor)) == users[1]
    features = pages(client, done(client.find_features("i", limit=2, field="item.id")))
    assert [len(page) for page in features] == [2, 2, 1]


def test_the_schema_is_read_whole_however_many_pages_it_has(made: Callable[..., Any]) -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        first = asked[-1].get("after", "0") == "0"
        sides = {"user": {"id": {"kind": "id"}}, "item": {}} if first else {"user": {}, "item": {"id": {"kind": "id"}}}
        more = {"context": {}, "exclude_seen": True, "open_context": False, "next": 1 if first else None}
        return httpx.Response(200, json=sides | more)

    schema = done(made(answer).schema(values=3))
    assert (list(schema.user), list(schema.item), schema.next) == (["id"], ["id"], None)
    assert [one["values"] for one in asked] == ["3", "3"]


def test_an_import_takes_what_is_good_and_says_which_lines_are_not(
    service: Service, made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_LINES", 2)
    client = made(service)
    events: list[Any] = [NewEvent("u", "i"), {"user": "u"}, {"user": "u", "item": "i"}, {"item": 3.5}, NewEvent("u", "j")]
    answer = done(client.import_events(events))
    assert (answer.lines, answer.taken, answer.duplicates, answer.refused) == (5, 3, 0, 2)
    assert [one.line for one in answer.refusals] == [2, 4]
    assert answer.position == client.position > 0
    assert len(service.seen) == 3


def test_imported_events_whose_answer_is_lost_are_learned_once(service: Service, made: Callable[..., Any]) -> None:
    client, service.lost = made(service), 1
    answer = done(client.import_events([{"user": "u", "item": "i"}, NewEvent("u", "i")]))
    assert (answer.taken, answer.duplicates) == (0, 2)  # they were learned at the first sending
    assert service.api.service.recommender.events == 2


@pytest.mark.parametrize("remove", ["remove_item", "forget_user"])
def test_a_removal_is_sent_again_only_where_the_second_is_no_error(
    service: Service, made: Callable[..., Any], remove: str
) -> None:
    client = made(service)
    done(client.put_items({"x": {}}))
    done(client.put_users({"x": {}}))
    service.lost, sent = 1, len(service.seen)
    assert done(getattr(client, remove)("x", missing_ok=True)).position == client.position
    assert len(service.seen) == sent + 2
    with pytest.raises(ServiceError, match="404"):
        done(getattr(client, remove)("x"))
    service.lost, sent = 1, len(service.seen)
    with pytest.raises(ServiceUnavailable, match="lost"):
        done(getattr(client, remove)("x"))
    assert len(service.seen) == sent + 1


@pytest.mark.parametrize("name", ["a/b c", "ä#?%2F", ".", "..", "...", "*"])
def test_an_id_of_any_letters_is_put_and_found(service: Service, made: Callable[..., Any], name: str) -> None:
    client = made(service)
    done(client.put_item(name, JAZZ))
    assert done(client.item(name)).id == name
    assert [one.id for one in done(client.find_items())] == [name]
    assert done(client.remove_item(name)).written == 1


# What goes wrong


def test_a_program_hears_of_retries_and_may_end_them(made: Callable[..., Any]) -> None:
    heard: list[Retry] = []

    def away(_: httpx.Request) -> httpx.Response:
        if len(heard) % 2:
            return httpx.Response(503, json={"detail": "starting"})
        raise httpx.ConnectError("nobody listens")

    with pytest.raises(ServiceUnavailable, match="nobody listens") as caught:
        done(made(away, on_retry=heard.append).ready())
    assert caught.value.status is None
    assert [(one.attempt, one.error.status) for one in heard] == [(1, None), (2, 503)]
    assert isinstance(heard[0].error.__cause__, httpx.ConnectError)
    assert all(one.seconds > 0 for one in heard)

    def end(retry: Retry) -> None:
        raise KeyError(retry.attempt)

    with pytest.raises(KeyError, match="1"):
        done(made(away, on_retry=end).ready())


def test_own_writes_are_asked_for_in_every_question(made: Callable[..., Any], service: Service) -> None:
    client = made(service, read_your_writes=True)
    done(client.put_items({"i": JAZZ}))
    done(client.find_items())
    done(client.health())
    assert [one.headers.get("coldstream-after") for one in service.seen] == [None, str(client.position), None]


def test_a_query_that_the_service_would_refuse_is_not_sent(made: Callable[..., Any]) -> None:
    client = made(lambda _: pytest.fail("sent"))
    with pytest.raises(ServiceError, match=r"not sent: .*<= 1000"):
        done(client.newest(5000))
    with pytest.raises(ServiceError, match="not sent"):
        done(client.nearest(""))


def test_an_answer_of_something_else_is_said_to_be(made: Callable[..., Any]) -> None:
    client = made(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(ServiceError, match=r"GET /evaluation: the answer cannot be read .* is the url that of a service"):
        done(client.evaluation())


@pytest.mark.parametrize("url", ["localhost:8000", "127.0.0.1:8000", "ftp://h", "http://", "http://h:x", ""])
@pytest.mark.parametrize("cls", [Client, AsyncClient])
def test_an_address_that_is_none_is_refused(cls: Any, url: str) -> None:
    with pytest.raises(InvalidInput, match=r"url must be the address of a service, got .*; write http://127.0.0.1:8000"):
        cls(url)


def test_a_service_behind_a_path_is_reached(made: Callable[..., Any]) -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, content=json.dumps({"position": 3}))

    assert done(made(answer, url="http://h/shop/").ready()).position == 3
    assert asked == ["/shop/ready"]
