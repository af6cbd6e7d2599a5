"""Handlers: recommend, and why.

Reading runs at once on the event loop. What may take long does not hold it up: it is bounded, or done on copies in another
thread.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coldstream.model.explanation import MOST_TERMS, Addends, explained
from coldstream.recommender import Recommendation
from coldstream.scoring.requests import EncodedRequest
from coldstream.service import messages, recommend_messages
from coldstream.service.answers import refused, seconds
from coldstream.service.service import Service

log = logging.getLogger(__name__)


async def recommend(
    service: Service, request: recommend_messages.RecommendRequest, _: str
) -> recommend_messages.RecommendResponse:
    """The best items for a user in a context."""
    await service.known_up_to(request.after)
    recommender, now = service.recommender, seconds(request.time)
    _check_asked(request.context, request.attributes, request.where)

    def encode() -> EncodedRequest:
        return recommender.encode_request(
            request.user,
            request.n,
            context=request.context,
            time=now,
            attributes=request.attributes,
            exclude_seen=request.exclude_seen,
            allow=request.allow,
            deny=request.deny,
            where=request.where,
        )

    if not request.explain:
        best = await service.batcher.recommend(recommender, encode)
        if not request.describe:
            return recommend_messages.RecommendResponse(
                [recommend_messages.Recommended(item, score) for item, score in best]
            )
        described = zip(best, _described(service, best), strict=True)
        return recommend_messages.RecommendResponse(
            [recommend_messages.Recommended(*one, attributes=own) for one, own in described]
        )
    if request.n > messages.MOST_EXPLAINED:
        message = f"n must be at most {messages.MOST_EXPLAINED} with explain, got {request.n}"
        raise refused("n", f"{message}; ask for fewer, or explain single items with /explain")
    best, addends = await service.batcher.recommend_with_addends(recommender, encode)
    most = min(MOST_TERMS, messages.MOST_TERMS // max(1, len(best)))
    known: Sequence[dict[str, Any] | UnsetType] = [UNSET] * len(best)
    if request.describe:
        known = _described(service, best)
    why = await asyncio.to_thread(lambda: [_terms(own, most) for own in addends])
    answers = zip(best, why, known, strict=True)
    return recommend_messages.RecommendResponse(
        [recommend_messages.Recommended(*one, terms, own) for one, terms, own in answers]
    )


def _described(service: Service, best: Sequence[Recommendation]) -> list[dict[str, Any]]:
    """The attributes of items that were recommended, and that may have been removed since."""
    recommender, described, size = service.recommender, list[dict[str, Any]](), 0
    for item, _ in best:
        own = recommender.item(item) if recommender.has_item(item) else {}
        size += len(msgspec.json.encode(own))
        if size > messages.MOST_DESCRIBED:
            message = f"the attributes of {len(best)} items take more than {messages.MOST_DESCRIBED} bytes"
            raise refused("n", f"{message}; ask for fewer, or leave out describe")
        described.append(own)
    return described


async def explain(service: Service, request: recommend_messages.ExplainRequest, _: str) -> recommend_messages.Explanation:
    """The terms that add up to the score of one item."""
    await service.known_up_to(request.after)
    _check_asked(request.context, request.attributes, None)
    now, attributes = seconds(request.time), request.attributes
    addends = service.recommender.addends(
        request.user, request.item, context=request.context, time=now, attributes=attributes
    )
    available = service.recommender.is_available(request.item, now)
    return recommend_messages.Explanation(addends.score, await asyncio.to_thread(_terms, addends, MOST_TERMS), available)


def _terms(addends: Addends, most: int) -> list[recommend_messages.Term]:
    return [recommend_messages.Term(list(term.features), term.value) for term in explained(addends, most).terms]


def _check_asked(context: messages.Fields, attributes: messages.Fields | None, where: messages.Fields | None) -> None:
    """Refuse a request with more values than can be looked at while others wait."""
    given = {"context": context, "attributes": attributes or {}, "where": where or {}}
    counts = {name: sum(len(v) if isinstance(v, list) else 1 for v in own.values()) for name, own in given.items()}
    total = sum(counts.values())
    if total > messages.MOST_ASKED:
        message = f"{', '.join(given)} must not have more than {messages.MOST_ASKED} values together, got {total}"
        raise refused(max(counts, key=lambda name: counts[name]), f"{message}; leave some out")
