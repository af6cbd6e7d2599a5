"""Batching of concurrent requests: items' vectors are read once for all requests of a batch."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from coldstream.lists.explanation import Addends
from coldstream.recommender import Recommendation, Recommender
from coldstream.scoring.requests import EncodedRequest

Best = list[Recommendation]
Encode = Callable[[], EncodedRequest]


class _Waiting(NamedTuple):
    """A request that waits for the next batch: how it is encoded, how its answer is made, and the future of that."""

    encode: Encode
    finish: Callable[[EncodedRequest, Best], Any]
    answer: "asyncio.Future[Any]"


class RequestBatcher:
    """A collector of the requests of one turn of the event loop, which are answered together as a batch."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    async def recommend(self, recommender: Recommender, encode: Encode) -> Best:
        """Return the best items for one request. `encode` checks and encodes it when its batch is answered."""
        best: Best = await self._asked(recommender, encode, lambda _, best: best)
        return best

    async def recommend_with_addends(self, recommender: Recommender, encode: Encode) -> tuple[Best, list[Addends]]:
        """Return the best items for one request and the addends of their scores, both from the same state."""
        found: tuple[Best, list[Addends]] = await self._asked(
            recommender, encode, lambda request, best: (best, recommender.serving.addends_batch(request, best))
        )
        return found

    async def _asked(self, recommender: Recommender, encode: Encode, finish: Callable[[EncodedRequest, Best], Any]) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._answer, recommender)  # after all tasks that are ready now
        self._waiting.append(_Waiting(encode, finish, answer))
        return await answer

    def _answer(self, recommender: Recommender) -> None:
        waiting, self._waiting = self._waiting, []
        requests: list[EncodedRequest] = []
        asked: list[_Waiting] = []
        for one in waiting:
            if one.answer.done():  # its client has gone
                continue
            try:
                requests.append(one.encode())
                asked.append(one)
            except Exception as error:  # an error of one request must not leave the others waiting for ever
                one.answer.set_exception(error)
        try:
            found = recommender.serving.recommend_batch(requests)
        except Exception as error:
            for one in asked:
                one.answer.set_exception(error)
            return
        for one, request, best in zip(asked, requests, found, strict=True):
            try:
                one.answer.set_result(one.finish(request, best))
            except Exception as error:
                one.answer.set_exception(error)
