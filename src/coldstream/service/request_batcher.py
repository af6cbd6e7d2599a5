"""Requests that come at once are answered as one batch: what does not depend on who asks is worked out once."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coldstream.crowd import Prepared
from coldstream.errors import ColdstreamError
from coldstream.recommender import Recommender

Best = Sequence[tuple[str, float]]


class UnfilteredRequest(NamedTuple):
    """A request without filters."""

    user: str | None
    n: int
    context: Mapping[str, Any]
    time: float
    attributes: Mapping[str, Any] | None
    exclude_seen: bool | None


class RequestBatcher:
    """Collects the requests of one turn of the event loop, all that have come by then, and answers them together."""

    def __init__(self) -> None:
        self._waiting: list[tuple[UnfilteredRequest, asyncio.Future[Best]]] = []

    async def recommend(self, recommender: Recommender, request: UnfilteredRequest) -> Best:
        """The best items for one request."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Best] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._answer, recommender)  # behind everybody who is ready now
        self._waiting.append((request, answer))
        return await answer

    def _answer(self, recommender: Recommender) -> None:
        waiting, self._waiting = self._waiting, []
        prepared: list[Prepared] = []
        answers: list[asyncio.Future[Best]] = []
        for request, answer in waiting:
            if answer.done():  # whoever asked went away
                continue
            try:
                prepared.append(recommender.prepared(*request))
                answers.append(answer)
            except ColdstreamError as error:
                answer.set_exception(error)
        try:
            found = recommender.recommend_prepared(prepared)
        except Exception as error:
            for answer in answers:
                answer.set_exception(error)
        else:
            for answer, best in zip(answers, found, strict=True):
                answer.set_result(best)
