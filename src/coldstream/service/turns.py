"""Many who ask at once are answered in one go: what does not depend on who asks is worked out once."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coldstream.crowd import Prepared
from coldstream.errors import ColdstreamError
from coldstream.recommender import Recommender

Best = Sequence[tuple[str, float]]


class Asked(NamedTuple):
    """A request without filters."""

    user: str | None
    n: int
    context: Mapping[str, Any]
    time: float
    attributes: Mapping[str, Any] | None
    exclude_seen: bool | None


class Turns:
    """Collects requests until all that came in at the same moment have been read, and answers them together."""

    def __init__(self) -> None:
        self._asking: list[tuple[Asked, asyncio.Future[Best]]] = []

    async def recommend(self, recommender: Recommender, asked: Asked) -> Best:
        """The best items for one request."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Best] = loop.create_future()
        if not self._asking:
            loop.call_soon(self._answer, recommender)  # behind everybody who is ready now
        self._asking.append((asked, answer))
        return await answer

    def _answer(self, recommender: Recommender) -> None:
        asking, self._asking = self._asking, []
        prepared: list[Prepared] = []
        answers: list[asyncio.Future[Best]] = []
        for asked, answer in asking:
            if answer.done():  # whoever asked went away
                continue
            try:
                prepared.append(recommender.prepared(*asked))
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
