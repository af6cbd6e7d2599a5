"""The client for programs on an event loop: word for word the other one, with await."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Self

import httpx

from coldstream.client import calls
from coldstream.client.errors import ClientClosed, ServiceUnavailable
from coldstream.client.process import after_fork
from coldstream.client.requests import events_of, items_of, pieces, users_of
from coldstream.client.retries import TRANSIENT, Retries
from coldstream.service import messages as m
from coldstream.service import recommend_messages as r
from coldstream.service.health_messages import Health


class AsyncClient:
    """A connection to the service, kept between calls; any task of one event loop may use it.

    It is made from the `url` of the service and, where the service has keys, a `key`. An answer has `timeout` seconds to
    come; what goes over (a lost connection, 429, 503) is tried again as `retries` say. Events get an id each before they are
    first sent, so however often they are, they are learned once. With `read_your_writes` every question carries the position
    of what this client wrote last: whichever replica answers, it knows that much. A process that is forked has
    connections of its own. A `transport` is httpx's, for tests, and is shared with forked processes.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        key: str | None = None,
        timeout: float = 5.0,
        retries: Retries | None = None,
        read_your_writes: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        # Reading the certificates takes longer than all else, and a child that is forked has read them.
        verify = httpx.create_ssl_context() if transport is None else True
        self._connected = partial(
            httpx.AsyncClient, base_url=url, headers=headers, timeout=timeout, transport=transport, verify=verify
        )
        self._http = self._connected()
        after_fork(self._begin)
        self._retries = Retries() if retries is None else retries
        self._reads_own = read_your_writes
        self.position = 0
        """The last line of the log that this client wrote."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def recommend(
        self,
        user: str | None = None,
        n: int = 10,
        *,
        context: Mapping[str, Any] | None = None,
        after: int | None = None,
        **more: Any,
    ) -> list[r.Recommended]:
        """The best `n` items for a `user` in a `context`, known up to the position `after`; `more` is what a request has."""
        request = r.RecommendRequest(user=user, n=n, context=dict(context or {}), after=self._after(after), **more)
        answer: r.RecommendResponse = await self.send(calls.recommend(request))
        return answer.items

    async def explain(self, user: str | None, item: str, *, after: int | None = None, **more: Any) -> r.Explanation:
        """Why an `item` has its score for a `user`, known up to the position `after`; `more` is what a request has."""
        request = r.ExplainRequest(user=user, item=item, after=self._after(after), **more)
        answer: r.Explanation = await self.send(calls.explain(request))
        return answer

    async def learn(self, events: m.NewEvent | Iterable[m.NewEvent]) -> m.Learned:
        """Learn `events`, a thousand in a call at most; durable and learned, each once, when this returns."""
        learned, duplicates = 0, 0
        for piece in pieces(events_of(events), m.MOST_RECORDS):
            answer: m.Learned = await self.send(calls.learn(piece))
            learned, duplicates = learned + answer.learned, duplicates + answer.duplicates
        return m.Learned(learned, duplicates, self.position)

    async def put_items(self, items: Mapping[str, Mapping[str, Any]] | Iterable[m.NewItem]) -> m.Written:
        """Put `items`, or attributes by id."""
        written = 0
        for piece in pieces(items_of(items), m.MOST_RECORDS):
            answer: m.Written = await self.send(calls.put_items(piece))
            written += answer.written
        return m.Written(written, self.position)

    async def put_users(self, users: Mapping[str, Mapping[str, Any]] | Iterable[m.NewUser]) -> m.Written:
        """Put `users`, or attributes by id."""
        written = 0
        for piece in pieces(users_of(users), m.MOST_RECORDS):
            answer: m.Written = await self.send(calls.put_users(piece))
            written += answer.written
        return m.Written(written, self.position)

    async def item(self, item: str, *, after: int | None = None) -> m.DescribedItem:
        """An `item` as it was put, known up to the position `after`."""
        answer: m.DescribedItem = await self.send(calls.get_item(item, self._after(after)))
        return answer

    async def user(self, user: str, *, after: int | None = None) -> m.Described:
        """A `user` as they were put, known up to the position `after`."""
        answer: m.Described = await self.send(calls.get_user(user, self._after(after)))
        return answer

    async def remove_item(self, item: str) -> m.Written:
        """Take an `item` out of the catalogue."""
        answer: m.Written = await self.send(calls.remove_item(item))
        return answer

    async def forget_user(self, user: str) -> m.Forgotten:
        """Forget a `user`, for good."""
        answer: m.Forgotten = await self.send(calls.forget_user(user))
        return answer

    async def evaluation(self) -> m.EvaluationResponse:
        """How well it recommends, beside popularity."""
        answer: m.EvaluationResponse = await self.send(calls.evaluation())
        return answer

    async def health(self) -> Health:
        """Whether it is well, and how far it knows the log."""
        answer: Health = await self.send(calls.health())
        return answer

    async def send(self, call: calls.Call) -> Any:
        """Send a `call` until it is answered, or its retries or their patience are used up."""
        attempt, waited = 1, 0.0
        while True:
            try:
                reply = await self._sent(call)
            except httpx.TransportError as error:
                never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                wait = self._retries.wait(attempt, None, waited) if call.again or never_sent else None
                if wait is None:
                    raise ServiceUnavailable(f"{call.method} {call.path}: {error!r}") from error
            else:
                wait = self._retries.wait(attempt, reply.retry_after, waited) if reply.status in TRANSIENT else None
                if wait is None:
                    break
            await asyncio.sleep(wait)
            attempt, waited = attempt + 1, waited + wait
        answer = calls.answer_of(call, reply)
        if call.writes:
            self.position = max(self.position, answer.position)
        return answer

    async def _sent(self, call: calls.Call) -> calls.Reply:
        if self._http.is_closed:
            raise ClientClosed(f"{call.method} {call.path}: this client was closed; make another one")
        response = await self._http.request(
            call.method, call.url, content=call.body, params=call.query, headers=call.headers
        )
        return calls.Reply(response.status_code, response.content, response.headers.get("retry-after"))

    def _after(self, after: int | None) -> int | None:
        return self.position if after is None and self._reads_own and self.position else after

    def _begin(self) -> None:
        """Connect anew: answers to two processes on one connection would be mixed."""
        if not self._http.is_closed:
            self._http = self._connected()
