"""The calls of the service as values: what is sent, and what comes back. Both clients send the same ones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from coldstream.client.errors import ServiceError, ServiceUnavailable
from coldstream.client.retries import TRANSIENT
from coldstream.service import messages as m
from coldstream.service import recommend_messages as r
from coldstream.service.health_messages import Health
from coldstream.service.source_ids import SOURCE_HEADER

One = TypeVar("One", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


class Call(NamedTuple):
    """One request."""

    method: str
    path: str
    """As the table of routes has it, with {id} for an id."""
    gives: Any
    body: bytes | None = None
    query: Mapping[str, str] = {}
    name: str | None = None
    """The id in the path."""
    after: int | None = None
    """A line of the log that the answer has to know."""
    again: bool = True
    """Whether it may be sent again when nobody knows if it was done."""
    writes: bool = False
    source: str | None = None
    """The kind of broker whose messages the body has, where they name events."""

    @property
    def url(self) -> str:
        """The path with the id in it."""
        return self.path if self.name is None else self.path.replace("{id}", quote(self.name, safe=""))

    @property
    def headers(self) -> dict[str, str]:
        """What belongs to this call."""
        kind = {} if self.body is None else {"content-type": "application/json"}
        source = {} if self.source is None else {SOURCE_HEADER: self.source}
        after = {} if self.after is None else {"coldstream-after": str(self.after)}
        return kind | source | after


def recommend(request: r.RecommendRequest) -> Call:
    """The best items for a user."""
    return Call("POST", "/recommend", r.RecommendResponse, _checked(r.RecommendRequest, request))


def explain(request: r.ExplainRequest) -> Call:
    """Why an item has its score."""
    return Call("POST", "/explain", r.Explanation, _checked(r.ExplainRequest, request))


def learn(events: Iterable[m.NewEvent], source: str | None = None) -> Call:
    """Events, each under a name: sent again, they are learned once. A `source` is the kind of broker that they come from."""
    named = [one if one.event_id is not None else msgspec.structs.replace(one, event_id=uuid4().hex) for one in events]
    return Call("POST", "/events", m.Learned, _checked(m.Events, named), writes=True, source=source)


def put_items(items: Sequence[m.NewItem]) -> Call:
    """Items with their attributes."""
    return Call("POST", "/items", m.Written, _checked(m.Items, list(items)), writes=True)


def put_users(users: Sequence[m.NewUser]) -> Call:
    """Users with their attributes."""
    return Call("POST", "/users", m.Written, _checked(m.Users, list(users)), writes=True)


def get_item(item: str, after: int | None) -> Call:
    """An item, as it was put."""
    return Call("GET", "/items/{id}", m.DescribedItem, name=item, after=after)


def get_user(user: str, after: int | None) -> Call:
    """A user, as they were put."""
    return Call("GET", "/users/{id}", m.Described, name=user, after=after)


def remove_item(item: str) -> Call:
    """An item goes. Not sent again when the answer is lost, for the second would say that there is none."""
    return Call("DELETE", "/items/{id}", m.Written, name=item, again=False, writes=True)


def forget_user(user: str) -> Call:
    """A person is forgotten. Not sent again when the answer is lost."""
    return Call("DELETE", "/users/{id}", m.Forgotten, name=user, again=False, writes=True)


def evaluation() -> Call:
    """How well it recommends."""
    return Call("GET", "/evaluation", m.EvaluationResponse)


def health() -> Call:
    """Whether it is well."""
    return Call("GET", "/health", Health)


class Reply(NamedTuple):
    """What came back: a status, a body, and when the service wants to be asked again."""

    status: int
    body: bytes
    retry_after: str | None


def answer_of(call: Call, reply: Reply) -> Any:
    """The answer, typed; raises `ServiceUnavailable` for what goes over, and `ServiceError` for what does not."""
    if reply.status == 200:
        return msgspec.json.decode(reply.body, type=call.gives)
    try:
        problem = msgspec.json.decode(reply.body)
        detail, field = str(problem["detail"]), problem.get("field")
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):  # a proxy's page
        detail, field = reply.body[:200].decode(errors="replace"), None
    if reply.status in TRANSIENT:
        raise ServiceUnavailable(f"{call.method} {call.path}: {reply.status}: {detail}")
    raise ServiceError(reply.status, detail, field)


def _checked(kind: Any, value: Any) -> bytes:
    """A body that the service's decoder takes: it is refused here before it is sent."""
    body = _encode(value)
    try:
        msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ServiceError(422, f"not sent: {error}") from error
    return body
