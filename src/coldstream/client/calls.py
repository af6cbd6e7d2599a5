"""Every call of the service as a method, shared by `Client` and `AsyncClient`."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload
from uuid import uuid4

import httpx
import msgspec

from coldstream.client.answers import Found, Page, Recommendation, Recommendations
from coldstream.client.call import LINES, Answer, Call, OnRetry, Reply, Retry, Steps
from coldstream.client.errors import ServiceError, ServiceUnavailable
from coldstream.client.process import after_fork
from coldstream.client.retries import TRANSIENT, Retries
from coldstream.errors import InvalidInput, shown
from coldstream.service.messages import core as m
from coldstream.service.messages import health as h
from coldstream.service.messages import live as live_m
from coldstream.service.messages import recommend as r
from coldstream.service.messages import search as s

if TYPE_CHECKING:
    from coldstream.client.async_client import AsyncClient
    from coldstream.client.client import Client

MOST_LINES = 5000
"""Maximal number of JSON lines per request: few enough for one time-out, many enough to make the round trip negligible."""

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
AnswerOf = TypeVar("AnswerOf", covariant=True)
Record = TypeVar("Record", m.NewEvent, m.NewItem, m.NewUser)
Given = ParamSpec("Given")

Attributes = Mapping[str, Any]
_encode = msgspec.json.Encoder().encode


class Method(Protocol[Given, AnswerOf]):
    """A method that returns its answer in `Client`, and a coroutine in `AsyncClient`."""

    @overload
    def __get__(self, client: "Client", owner: Any = None) -> Callable[Given, AnswerOf]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: Any = None) -> Callable[Given, Coroutine[Any, Any, AnswerOf]]: ...
    @overload
    def __get__(self, client: None, owner: Any = None) -> Callable[Concatenate[Any, Given], Any]: ...


def method(steps: Callable[Concatenate[Any, Given], Steps[Answer]]) -> Method[Given, Answer]:
    """Convert a generator of steps into a method of both clients."""

    @wraps(steps)
    def call(client: Any, /, *given: Given.args, **named: Given.kwargs) -> Any:
        return client._run(steps(client, *given, **named))

    # `help()` should show the type of the answer, and not that of the steps.
    answer = steps.__annotations__["return"].__args__[-1]
    call.__signature__ = signature(steps).replace(return_annotation=answer)  # type: ignore[attr-defined]
    return cast("Method[Given, Answer]", call)


class Calls(Generic[Http]):
    """The calls of the service, as methods of both clients. A subclass sends the requests and sleeps."""

    def __init__(
        self, connected: Callable[[], Http], retries: Retries | None, read_your_writes: bool, on_retry: OnRetry | None
    ) -> None:
        self._connected: Callable[[], Http] = connected
        self._http: Http = connected()
        self._retries = Retries() if retries is None else retries
        self._reads_own, self._on_retry = read_your_writes, on_retry
        self.position = 0
        """The log position of this client's last write."""
        after_fork(self._begin)

    # Recommendations

    @method
    def recommend(
        self,
        user: str | None = None,
        n: int = 10,
        *,
        context: Attributes | None = None,
        time: m.Time | None = None,
        attributes: Attributes | None = None,
        exclude_seen: bool | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Attributes | None = None,
        explain: bool = False,
        describe: bool = False,
        history: Iterable[str] | None = None,
        rules: r.RulesBody | None = None,
        remember: bool = False,
        next_of: str | None = None,
        after: int | None = None,
    ) -> Steps[Recommendations]:
        """Recommend the best `n` items for a `user` in a `context` at a `time`.

        `attributes` describe the user for this call only, and `history` lists the items chosen by a visitor without a user
        id. `exclude_seen`, `allow`, `deny` and `where` filter items; `rules` boost, cap, pin and diversify them. With
        `explain` every item has an explanation of its score, with `describe` its attributes. With `remember` the answer has
        a `recommendation_id`, which `next_page` and events need; `next_of` is the id of a list whose next page is wanted.
        The service answers once it has applied the log up to the position `after`.
        """
        request = r.RecommendRequest(
            user=user,
            n=n,
            context=dict(context or {}),
            time=time,
            attributes=_own(attributes),
            exclude_seen=exclude_seen,
            allow=_listed(allow),
            deny=_listed(deny),
            where=_own(where),
            explain=explain,
            describe=describe,
            history=_listed(history),
            rules=rules,
            remember=remember,
            next_of=next_of,
        )
        return self._recommend(request, after)

    def _recommend(self, request: r.RecommendRequest, after: int | None) -> Steps[Recommendations]:
        body = _checked(r.RecommendRequest, request)
        answer = yield from self._send(_post("/recommend", r.RecommendResponse, body, reads=True, after=after))
        first = answer.first_position or 1
        items = [
            Recommendation(one.item, one.score, one.why, one.attributes, place)
            for place, one in enumerate(answer.items, first)
        ]
        name = answer.recommendation_id or None
        ended = name is None or len(items) < request.n
        following = msgspec.structs.replace(request, next_of=name)
        return Recommendations(items, name, more=None if ended else lambda: self._recommend(following, after))

    @method
    def explain(
        self,
        user: str | None,
        item: str,
        *,
        context: Attributes | None = None,
        time: m.Time | None = None,
        attributes: Attributes | None = None,
        after: int | None = None,
    ) -> Steps[r.Explanation]:
        """Explain the score of an `item` for a `user`; `context`, `time`, `attributes` and `after` as in `recommend`."""
        request = r.ExplainRequest(item, user, dict(context or {}), time, _own(attributes))
        body = _checked(r.ExplainRequest, request)
        return self._send(_post("/explain", r.Explanation, body, reads=True, after=after))

    @method
    def similar(
        self,
        item: str,
        n: int = 10,
        *,
        where: Attributes | None = None,
        time: m.Time | None = None,
        describe: bool = False,
        after: int | None = None,
    ) -> Steps[Page[r.ScoredItem]]:
        """List the `n` items most similar to an `item`; `where`, `time`, `describe` and `after` as in `recommend`."""
        asked = r.ListQuery(n, _as_json(where), time, describe)
        return self._list(_get("/items/{id}/similar", r.ItemList, asked, id=item, after=after))

    @method
    def trending(
        self,
        n: int = 10,
        *,
        half_life: float | None = None,
        where: Attributes | None = None,
        time: m.Time | None = None,
        describe: bool = False,
        after: int | None = None,
    ) -> Steps[Page[r.ScoredItem]]:
        """List the `n` items chosen most often recently; the weight of a choice halves after `half_life` events.

        `where`, `time`, `describe` and `after` are as in `recommend`.
        """
        asked = r.TrendingQuery(n, half_life, _as_json(where), time, describe)
        return self._list(_get("/trending", r.ItemList, asked, after=after))

    @method
    def newest(
        self,
        n: int = 10,
        *,
        where: Attributes | None = None,
        time: m.Time | None = None,
        describe: bool = False,
        after: int | None = None,
    ) -> Steps[Page[r.ScoredItem]]:
        """List the `n` items added last; `where`, `time`, `describe` and `after` as in `recommend`."""
        return self._list(_get("/new", r.ItemList, r.ListQuery(n, _as_json(where), time, describe), after=after))

    def _list(self, call: Call[r.ItemList]) -> Steps[Page[r.ScoredItem]]:
        return Page((yield from self._send(call)).items)

    # Events, items and users

    @method
    def learn(self, events: m.NewEvent | Iterable[m.NewEvent], *, source: str | None = None) -> Steps[m.Learned]:
        """Learn `events`; all are durable and learned, each once, when this returns.

        They are sent in batches of a thousand, each of which the service accepts or refuses as a whole. A reader of a broker
        gives the kind of its `source`: `nats`, `kafka` or `outbox`. Only then may event ids begin with that name and a
        colon.
        """
        learned = duplicates = 0
        given = [events] if isinstance(events, m.NewEvent) else events
        for piece in _pieces(map(_named, given), m.MOST_RECORDS):
            call = _post("/events", m.Learned, _checked(m.Events, piece), writes=True)
            answer = yield from self._send(msgspec.structs.replace(call, source=source))
            learned, duplicates = learned + answer.learned, duplicates + answer.duplicates
        return m.Learned(learned, duplicates, self.position)

    @method
    def import_events(self, events: Iterable[m.NewEvent | Mapping[str, Any]]) -> Steps[m.LinesTaken]:
        """Learn `events` in bulk as JSON-lines.

        Each is accepted or refused on its own, and the answer lists the refused ones.
        """
        return self._import("/events", map(_named, events))

    @method
    def put_items(self, items: Mapping[str, Attributes] | Iterable[m.NewItem]) -> Steps[m.Written]:
        """Add `items` or replace their attributes, given as messages or as attributes by id.

        They are sent in batches of a thousand, each of which the service accepts or refuses as a whole.
        """
        return self._put("/items", m.Items, _records(m.NewItem, items))

    @method
    def import_items(self, items: Iterable[m.NewItem | Mapping[str, Any]]) -> Steps[m.LinesTaken]:
        """Put `items` in bulk as JSON-lines.

        Each is accepted or refused on its own, and the answer lists the refused ones.
        """
        return self._import("/items", items)

    @method
    def put_users(self, users: Mapping[str, Attributes] | Iterable[m.NewUser]) -> Steps[m.Written]:
        """Add `users` or replace their attributes, given as messages or as attributes by id.

        They are sent in batches of a thousand, each of which the service accepts or refuses as a whole.
        """
        return self._put("/users", m.Users, _records(m.NewUser, users))

    @method
    def import_users(self, users: Iterable[m.NewUser | Mapping[str, Any]]) -> Steps[m.LinesTaken]:
        """Put `users` in bulk as JSON-lines.

        Each is accepted or refused on its own, and the answer lists the refused ones.
        """
        return self._import("/users", users)

    @method
    def put_item(
        self,
        item: str,
        attributes: Attributes | None = None,
        *,
        available_from: m.Time | None = None,
        available_until: m.Time | None = None,
        hidden: bool = False,
    ) -> Steps[m.Written]:
        """Add an `item`, or replace its `attributes` and its availability.

        It is recommended from `available_from` until `available_until`, and not at all while it is `hidden`.
        """
        body = _checked(m.ItemBody, m.ItemBody(dict(attributes or {}), available_from, available_until, hidden))
        return self._send(Call(method="PUT", path="/items/{id}", gives=m.Written, body=body, id=item, writes=True))

    @method
    def put_user(self, user: str, attributes: Attributes | None = None) -> Steps[m.Written]:
        """Add a `user` or replace their `attributes`."""
        body = _checked(m.Attributes, m.Attributes(dict(attributes or {})))
        return self._send(Call(method="PUT", path="/users/{id}", gives=m.Written, body=body, id=user, writes=True))

    @method
    def item(self, item: str, *, after: int | None = None) -> Steps[m.DescribedItem]:
        """Get an `item` as stored, once the service has applied the log up to the position `after`."""
        return self._send(_get("/items/{id}", m.DescribedItem, id=item, after=after))

    @method
    def user(self, user: str, *, after: int | None = None) -> Steps[m.Described]:
        """Get a `user` as stored, once the service has applied the log up to the position `after`."""
        return self._send(_get("/users/{id}", m.Described, id=user, after=after))

    @method
    def remove_item(self, item: str, *, missing_ok: bool = False) -> Steps[m.Written]:
        """Remove an `item` from the catalogue.

        With `missing_ok` an unknown item is no error, and the call is retried when its answer is lost.
        """
        call = Call(method="DELETE", path="/items/{id}", gives=m.Written, id=item, again=missing_ok, writes=True)
        return self._remove(call, m.Written(0, self.position) if missing_ok else None)

    @method
    def forget_user(self, user: str, *, missing_ok: bool = False) -> Steps[m.Forgotten]:
        """Erase a `user` and everything learned from them, irreversibly.

        With `missing_ok` an unknown user is no error, and the call is retried when its answer is lost.
        """
        call = Call(method="DELETE", path="/users/{id}", gives=m.Forgotten, id=user, again=missing_ok, writes=True)
        return self._remove(call, m.Forgotten(self.position, 0.0) if missing_ok else None)

    @method
    def merge_user(self, user: str, session: str) -> Steps[m.Written]:
        """Merge the events of a `session` into the `user` who logged in from it, and forget the session."""
        body = _checked(m.MergedSession, m.MergedSession(session))
        path = "/users/{id}/merge"
        return self._send(Call(method="POST", path=path, gives=m.Written, body=body, id=user, again=False, writes=True))

    @method
    def put_fields(
        self,
        *,
        user: Mapping[str, Attributes] | None = None,
        item: Mapping[str, Attributes] | None = None,
        context: Mapping[str, Attributes] | None = None,
    ) -> Steps[m.Written]:
        """Declare fields of a `user`, an `item` or a `context`: field → kind and options, as in a schema."""
        sides = [{name: dict(own) for name, own in (side or {}).items()} for side in (user, item, context)]
        body = _checked(m.NewFields, m.NewFields(*sides))
        return self._send(Call(method="PUT", path="/schema/fields", gives=m.Written, body=body, writes=True))

    def _put(self, path: str, kind: Any, records: Iterable[Any]) -> Steps[m.Written]:
        written = 0
        for piece in _pieces(records, m.MOST_RECORDS):
            written += (yield from self._send(_post(path, m.Written, _checked(kind, piece), writes=True))).written
        return m.Written(written, self.position)

    def _import(self, path: str, records: Iterable[Any]) -> Steps[m.LinesTaken]:
        lines = taken = duplicates = refused = 0
        refusals: list[m.RefusedLine] = []
        for piece in _pieces(records, MOST_LINES):
            rest = [_encode(record) for record in piece]
            while rest:  # an answer that ended early tells how many lines it covers
                one = yield from self._send(_post(path, m.LinesTaken, b"\n".join(rest), kind=LINES, writes=True))
                if not 1 <= one.lines <= len(rest):
                    detail = f"the answer is about {one.lines} of {len(rest)} lines; is the url that of a service?"
                    raise ServiceError(200, f"POST {path}: {detail}")
                refusals += [msgspec.structs.replace(refusal, line=lines + refusal.line) for refusal in one.refusals]
                lines, taken = lines + one.lines, taken + one.taken
                duplicates, refused = duplicates + one.duplicates, refused + one.refused
                rest = rest[one.lines :]
        return m.LinesTaken(lines, taken, duplicates, refused, refusals, self.position)

    def _remove(self, call: Call[Answer], missing: Answer | None) -> Steps[Answer]:
        try:
            return (yield from self._send(call))
        except ServiceError as error:
            if missing is None or error.status != 404:
                raise
            return missing

    # Inspection of the model

    @method
    def find_items(self, search: str = "", *, limit: int = 20, after: int = 0) -> Steps[Found[s.ListedItem]]:
        """Find items whose id or attributes contain `search`, `limit` per page; `after` is the `next` of the page before."""
        return self._find("/items", s.FoundItems, s.Search(search, limit, after))

    @method
    def find_users(
        self, search: str = "", *, limit: int = 20, after: int = 0, cursor: str | None = None
    ) -> Steps[Found[str]]:
        """Find user ids that contain `search`, `limit` per page.

        `cursor` comes from the page before. Its `next` as `after` works too, but skips users if others were removed
        meanwhile.
        """
        return self._find("/users", s.FoundUsers, s.UserSearch(search, limit, after, cursor))

    @method
    def find_features(
        self, search: str = "", *, limit: int = 20, after: int = 0, field: str | None = None
    ) -> Steps[Found[str]]:
        """Find names of features that contain `search`, of all fields or one `field`, `limit` per page.

        `after` is the `next` of the page before.
        """
        return self._find("/features", s.FoundFeatures, s.FeatureSearch(search, limit, after, field))

    def _find(self, path: str, gives: type[Any], asked: msgspec.Struct) -> Steps[Found[Any]]:
        page = yield from self._send(_get(path, gives, asked))
        cursor = getattr(page, "cursor", None)
        place = {"after": page.next or 0} if cursor is None else {"cursor": cursor}
        following = msgspec.structs.replace(asked, **place)
        more = None if page.next is None else lambda: self._find(path, gives, following)
        return Found(getattr(page, path[1:]), page.total, page.next, cursor, more=more)

    @method
    def nearest(self, feature: str, n: int = 10) -> Steps[s.NearestFeatures]:
        """List the `n` features whose vectors are nearest to that of a `feature`, such as `item.genre=jazz`."""
        return self._send(_get("/features/nearest", s.NearestFeatures, s.NearestQuery(feature, n)))

    @method
    def changed(self, n: int = 10) -> Steps[s.ChangedFeatures]:
        """List the `n` features whose parameters changed most in about the last evaluation window of events.

        The first call starts the comparison, so it finds no change.
        """
        return self._send(_get("/features/changed", s.ChangedFeatures, s.ChangedQuery(n)))

    @method
    def schema(self, *, values: int = 50) -> Steps[s.SchemaInUse]:
        """Get the schema in use, with up to `values` values of each categorical field."""
        page = yield from self._send(_get("/schema", s.SchemaInUse, s.SchemaQuery(values=values)))
        while (place := page.next) is not None:
            more = yield from self._send(_get("/schema", s.SchemaInUse, s.SchemaQuery(after=place, values=values)))
            sides = {side: getattr(page, side) | getattr(more, side) for side in ("user", "item", "context")}
            page = msgspec.structs.replace(more, **sides)
        return page

    # The service itself

    @method
    def evaluation(self) -> Steps[m.EvaluationResponse]:
        """Get the live evaluation: the ranking quality of the service, compared with popularity."""
        return self._send(_get("/evaluation", m.EvaluationResponse))

    @method
    def live(self, since: int = -1) -> Steps[live_m.LiveResponse]:
        """Get the samples that the service's live page plots, after the sample with the number `since`."""
        return self._send(_get("/live", live_m.LiveResponse, live_m.LiveQuery(since), reads=False))

    @method
    def metrics(self) -> Steps[str]:
        """Get all metrics in the text format of Prometheus."""
        return (yield from self._send(_get("/metrics", bytes, reads=False))).decode()

    @method
    def fingerprint(self) -> Steps[h.StateFingerprint]:
        """Get a digest of the whole learned state; replicas with equal state return equal digests."""
        return self._send(_get("/fingerprint", h.StateFingerprint, reads=False))

    @method
    def snapshot(self) -> Steps[m.SnapshotTaken]:
        """Make the service take a snapshot now."""
        return self._send(_post("/snapshot", m.SnapshotTaken, b"{}"))

    @method
    def health(self) -> Steps[h.Health]:
        """Get the state of the process and its store; also works while the service is starting."""
        return self._send(_get("/health", h.Health, reads=False))

    @method
    def ready(self) -> Steps[h.Ready]:
        """Wait, as long as the retries allow, until the service is ready for all calls."""
        return self._send(_get("/ready", h.Ready, reads=False))

    # One call

    def _send(self, call: Call[Answer]) -> Steps[Answer]:
        """Send a call until it is answered, or until its retries or their patience are used up."""
        if call.reads and call.after is None and self._reads_own and self.position:
            call = msgspec.structs.replace(call, after=self.position)
        attempt, waited = 1, 0.0
        while True:
            asked, may_repeat = None, True
            try:
                reply: Reply = yield call
                if reply.status not in TRANSIENT or call.part(reply) is not None:
                    break
                trouble, asked = call.unavailable(reply), reply.retry_after
            except httpx.RequestError as error:
                never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                may_repeat = call.again or never_sent
                trouble = ServiceUnavailable(f"{call.method} {call.path}: {error!r}")
                trouble.__cause__ = error
            seconds = self._retries.wait(attempt, asked, waited) if may_repeat else None
            if seconds is None:
                raise trouble
            if self._on_retry is not None:
                self._on_retry(Retry(attempt, trouble, seconds))
            yield seconds
            attempt, waited = attempt + 1, waited + seconds
        answer = call.answer(reply)
        if call.writes:
            self.position = max(self.position, answer.position)  # type: ignore[attr-defined]
        return answer

    def _begin(self) -> None:
        """Open new connections in a forked process: responses to two processes on one connection would be mixed up."""
        if not self._http.is_closed:
            self._http = self._connected()


def options(url: str, key: str | None, timeout: float | httpx.Timeout, is_real: bool) -> dict[str, Any]:
    """Return the arguments of httpx that both clients share; raises `InvalidInput` for an invalid url."""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme not in ("http", "https") or not address.host:
        raise InvalidInput(f"url must be the address of a service, got {shown(url)}; write http://127.0.0.1:8000")
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    # Loading certificates is the slowest part of connecting. Done here, forked processes inherit the result.
    verify = httpx.create_ssl_context() if is_real else True
    return {"base_url": address, "headers": headers, "timeout": timeout, "verify": verify}


def _get(
    path: str, gives: type[Answer], asked: msgspec.Struct | None = None, reads: bool = True, **more: Any
) -> Call[Answer]:
    query = {} if asked is None else _query(asked)
    return Call(method="GET", path=path, gives=gives, query=query, reads=reads, **more)


def _post(path: str, gives: type[Answer], body: bytes, **more: Any) -> Call[Answer]:
    return Call(method="POST", path=path, gives=gives, body=body, **more)


def _query(asked: msgspec.Struct) -> dict[str, str]:
    """Return the fields of a message as query parameters; raises `ServiceError` if the service would refuse them."""
    given = msgspec.to_builtins(asked)
    query = {
        name: value if isinstance(value, str) else _encode(value).decode()
        for name, value in given.items()
        if value is not None and value != ""
    }
    _check(lambda: msgspec.convert(query, type(asked), strict=False))
    return query


def _checked(kind: Any, value: Any) -> bytes:
    """Encode a body; raises `ServiceError` before sending if the service's decoder would refuse it."""
    body = _encode(value)
    _check(lambda: msgspec.json.decode(body, type=kind))
    return body


def _check(decode: Callable[[], Any]) -> None:
    try:
        decode()
    except msgspec.ValidationError as error:
        raise ServiceError(422, f"not sent: {error}") from error


def _named(event: Any) -> Any:
    """Return an event with an id, so that sending it again does not learn it twice."""
    if isinstance(event, m.NewEvent):
        return event if event.event_id is not None else msgspec.structs.replace(event, event_id=uuid4().hex)
    return event if event.get("event_id") is not None else {**event, "event_id": uuid4().hex}


def _records(kind: type[Record], given: Mapping[str, Attributes] | Iterable[Record]) -> Iterable[Record]:
    if isinstance(given, Mapping):
        return [kind(name, dict(attributes)) for name, attributes in given.items()]  # type: ignore[arg-type]
    return given


def _pieces(records: Iterable[Any], most: int) -> Iterable[list[Any]]:
    """Yield records in lists of at most `most`."""
    piece: list[Any] = []
    for record in records:
        piece.append(record)
        if len(piece) == most:
            yield piece
            piece = []
    if piece:
        yield piece


def _own(given: Attributes | None) -> dict[str, Any] | None:
    return None if given is None else dict(given)


def _listed(given: Iterable[str] | None) -> list[str] | None:
    return None if given is None else list(given)


def _as_json(where: Attributes | None) -> str | None:
    return None if where is None else _encode(where).decode()
