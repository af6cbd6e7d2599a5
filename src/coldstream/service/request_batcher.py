"""Requests that come at once are answered as one batch: items' vectors are read once for all of them."""

import asyncio
from collections.abc import Callable

from coldstream.recommender import Recommendation, Recommender
from coldstream.scoring.requests import EncodedRequest

Best = list[Recommendation]
Encode = Callable[[], EncodedRequest]


class RequestBatcher:
    """Collects the requests of one turn of the event loop, all that have come by then, and answers them together."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Encode, asyncio.Future[Best]]] = []

    async def recommend(self, recommender: Recommender, encode: Encode) -> Best:
        """The best items for one request, which is checked and encoded when its turn has come."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Best] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._answer, recommender)  # behind everybody who is ready now
        self._waiting.append((encode, answer))
        return await answer

    def _answer(self, recommender: Recommender) -> None:
        waiting, self._waiting = self._waiting, []
        requests: list[EncodedRequest] = []
        answers: list[asyncio.Future[Best]] = []
        for encode, answer in waiting:
            if answer.done():  # whoever asked went away
                continue
            try:
                requests.append(encode())
                answers.append(answer)
            except Exception as error:  # whatever it is, nobody else may wait for ever because of it
                answer.set_exception(error)
        try:
            found = recommender.recommend_batch(requests)
        except Exception as error:
            for answer in answers:
                answer.set_exception(error)
        else:
            for answer, best in zip(answers, found, strict=True):
                answer.set_result(best)
