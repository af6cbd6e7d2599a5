"""The client for asyncio programs."""

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
    """A connection pool to the service, for any task of one event loop. Its methods are those of `Client`, to be awaited.

    `url` is the address of the service, and `key` its API key if it has keys. `timeout` is the number of seconds to wait for
    an answer, or an `httpx.Timeout`. Transient failures (a lost connection, 429, 502, 503, 504) are retried according to
    `retries`. `on_retry` is called with a `Retry` before each wait; an exception that it raises ends the call. Events get an
    id before they are first sent, so repeated sending learns them once. With `read_your_writes`, each read carries the log
    position of this client's last write, and the replica that answers has applied the log at least up to it. A forked
    process opens connections of its own. `transport` is a transport of httpx, for tests; forked processes share it.
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
        """Get the page that follows `page`, which this client got; None at the end."""
        return None if page.more is None else await self._run(page.more())

    async def pages(self, first: AnyPage) -> AsyncIterator[AnyPage]:
        """Iterate over the page `first` and all pages that follow it."""
        page: AnyPage | None = first
        while page is not None:
            yield page
            page = await self.next_page(page)

    async def send(self, call: Call[Answer]) -> Answer:
        """Send a `call`, with retries, and return its answer."""
        return await self._run(self._send(call))

    async def _run(self, steps: Steps[Answer]) -> Answer:
        try:
            step = next(steps)
            while True:
                try:
                    reply = await self._do(step)
                except httpx.RequestError as error:
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
