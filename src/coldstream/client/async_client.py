"""The client for programs on an event loop."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Self, TypeVar

import httpx

from coldstream.client.answers import Page
from coldstream.client.call import Answer, Call, OnRetry, Reply, Steps
from coldstream.client.calls import Calls, options
from coldstream.client.errors import ClientClosed
from coldstream.client.retries import Retries

AnyPage = TypeVar("AnyPage", bound=Page[Any])


class AsyncClient(Calls[httpx.AsyncClient]):
    """A connection to the service, kept between calls; any task of one event loop may use it.

    It has the methods of `Client`, to be awaited. It is made from the `url` of the service and, where the service has keys,
    a `key`. An answer has `timeout` seconds to come (or what an `httpx.Timeout` says); what goes over (a lost connection,
    429, 503) is tried again as `retries` say, and `on_retry` is called before each wait with a `Retry`: what it raises ends
    the call. Events get an id each before they are first sent, so however often they are, they are learned once. With
    `read_your_writes` every question carries the position of what this client wrote last: whichever replica answers, it
    knows that much. A process that is forked has connections of its own. A `transport` is httpx's, for tests, and is shared
    with forked processes.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        key: str | None = None,
        timeout: float | httpx.Timeout = 5.0,
        retries: Retries | None = None,
        on_retry: OnRetry | None = None,
        read_your_writes: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        connected = partial(httpx.AsyncClient, transport=transport, **options(url, key, timeout, transport is None))
        super().__init__(connected, retries, read_your_writes, on_retry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def next_page(self, page: AnyPage) -> AnyPage | None:
        """Get the page behind a `page` that this client got; None at the end."""
        return None if page.more is None else await self._run(page.more())

    async def pages(self, first: AnyPage) -> AsyncIterator[AnyPage]:
        """Iterate over the page `first` and all pages behind it."""
        page: AnyPage | None = first
        while page is not None:
            yield page
            page = await self.next_page(page)

    async def send(self, call: Call[Answer]) -> Answer:
        """Send a `call` until it is answered, or its retries are used up."""
        return await self._run(self._send(call))

    async def _run(self, steps: Steps[Answer]) -> Answer:
        try:
            step = next(steps)
            while True:
                try:
                    reply = await self._do(step)
                except httpx.TransportError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(reply)
        except StopIteration as end:
            answer: Answer = end.value
            return answer

    async def _do(self, step: Call[Any] | float) -> Reply | None:
        if not isinstance(step, Call):
            await asyncio.sleep(step)
            return None
        if self._http.is_closed:
            raise ClientClosed(f"{step.method} {step.path}: this client was closed; make another one")
        response = await self._http.request(
            step.method, step.url, content=step.body, params=step.query, headers=step.headers
        )
        return Reply(response.status_code, response.content, response.headers.get("retry-after"))
