"""Handlers of recommendations, their explanations, and lists that are not for one user.

They read the model on the event loop. Long work does not block the loop: it is bounded, done in slices, or done on copies in
another thread.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coldstream.errors import shown
from coldstream.lists.explanation import MOST_TERMS, Addends, explained
from coldstream.lists.rules import Boost, Rules
from coldstream.recommender import Recommendation
from coldstream.runtime.turns import in_slices
from coldstream.scoring.requests import EncodedRequest
from coldstream.service.handlers.answers import refused, seconds
from coldstream.service.messages import core as messages
from coldstream.service.messages.recommend import (
    ExplainRequest,
    Explanation,
    ItemList,
    ListQuery,
    Recommended,
    RecommendRequest,
    RecommendResponse,
    RulesBody,
    ScoredItem,
    Term,
    TrendingQuery,
)
from coldstream.service.service import Service

log = logging.getLogger(__name__)


async def recommend(service: Service, request: RecommendRequest, _: str) -> RecommendResponse:
    """Return the best items for a user in a context."""
    await service.known_up_to(request.after)
    recommender, now = service.recommender, seconds(request.time)
    _check_asked(request.context, request.attributes, request.where)
    before = () if request.next_of is None else await service.impressions.items(request.next_of)
    deny = [*(request.deny or ()), *before] if before else request.deny
    rules = None if request.rules is None else _rules(request.rules, request.n)
    if rules is not None:
        await in_slices(recommender.serving.look_up_in_steps(rules))

    def encode() -> EncodedRequest:
        return recommender.serving.encode_request(
            request.user,
            request.n,
            context=request.context,
            time=now,
            attributes=request.attributes,
            exclude_seen=request.exclude_seen,
            allow=request.allow,
            deny=deny,
            where=request.where,
            history=request.history,
        )

    if request.explain:
        items = await _explained(service, request, encode, rules)
    else:
        if rules is None:
            best = await service.batcher.recommend(recommender, encode)
        else:
            best = recommender.serving.recommend_ruled(encode(), rules)
        items = [Recommended(item, score) for item, score in best]
        if request.describe:
            described = zip(best, _described(service, best), strict=True)
            items = [Recommended(*one, attributes=own) for one, own in described]
    if not request.remember and request.next_of is None:
        return RecommendResponse(items)
    shown = (one.item for one in items)
    name = service.impressions.remember(shown, before, request.user)
    return RecommendResponse(items, name, UNSET if request.next_of is None else len(before) + 1)


async def _explained(
    service: Service, request: RecommendRequest, encode: Callable[[], EncodedRequest], rules: Rules | None
) -> list[Recommended]:
    """Return the best items, each with the terms of its score."""
    if request.n > messages.MOST_EXPLAINED:
        message = f"n must be at most {messages.MOST_EXPLAINED} with explain, got {request.n}"
        raise refused("n", f"{message}; ask for fewer, or explain single items with /explain")
    recommender = service.recommender
    if rules is None:
        best, addends = await service.batcher.recommend_with_addends(recommender, encode)
    elif rules.boosts:
        message = f"explain must be left out with boosts, got {len(rules.boosts)}: they are no terms of a score"
        raise refused("explain", f"{message}; explain single items with /explain")
    else:
        encoded = encode()
        best = recommender.serving.recommend_ruled(encoded, rules)
        addends = recommender.serving.addends_batch(encoded, best)
    most = min(MOST_TERMS, messages.MOST_TERMS // max(1, len(best)))
    known: Sequence[dict[str, Any] | UnsetType] = [UNSET] * len(best)
    if request.describe:
        known = _described(service, best)
    why = await asyncio.to_thread(lambda: [_terms(own, most) for own in addends])
    return [Recommended(*one, terms, own) for one, terms, own in zip(best, why, known, strict=True)]


def _rules(given: RulesBody, n: int) -> Rules:
    """Return the rules of a request for `n` items. Raises `InvalidInput` for too many items, or two pins at a position."""
    if n > messages.MOST_RULED:
        message = f"n must be at most {messages.MOST_RULED} with rules, got {n}"
        raise refused("n", f"{message}; ask for fewer, and for the next page with next_of")
    pins = {pin.position: pin.item for pin in given.pins}
    if len(pins) < len(given.pins):
        raise refused("rules.pins", f"pins must have different positions, got {len(given.pins)} at {len(pins)}; move some")
    return Rules([Boost(one.where, one.factor) for one in given.boosts], given.most_per, pins, given.diversity)


# Lists that are not for one user


def similar(service: Service, request: ListQuery, name: str) -> ItemList:
    """Return the items most similar to an item: chosen together with it, or alike in their vectors."""
    best = service.recommender.similar(name, request.n, time=seconds(request.time), where=_where(request.where))
    return _listed(service, best, request.describe)


def trending(service: Service, request: TrendingQuery, _: str) -> ItemList:
    """Return the items that were chosen most often lately."""
    now, where = seconds(request.time), _where(request.where)
    best = service.recommender.trending(request.n, half_life=request.half_life, time=now, where=where)
    return _listed(service, best, request.describe)


def newest(service: Service, request: ListQuery, _: str) -> ItemList:
    """Return the items that were added last."""
    best = service.recommender.newest(request.n, time=seconds(request.time), where=_where(request.where))
    return _listed(service, best, request.describe)


def _where(given: str | None) -> messages.Where | None:
    """Decode the filter of a query, which is JSON. Raises `InvalidInput` if it is not."""
    if given is None:
        return None
    try:
        where = _decode_where(given)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"where must be JSON as in POST /recommend ({error}), got {shown(given)}"
        raise refused("where", f'{message}; write {{"price": {{"max": 50}}}}, percent-encoded') from error
    _check_asked({}, None, where)
    return where


_decode_where = msgspec.json.Decoder(messages.Where).decode


def _listed(service: Service, best: Sequence[Recommendation], describe: bool) -> ItemList:
    if not describe:
        return ItemList([ScoredItem(*one) for one in best])
    return ItemList([ScoredItem(*one, own) for one, own in zip(best, _described(service, best), strict=True)])


def _described(service: Service, best: Sequence[Recommendation]) -> list[dict[str, Any]]:
    """Return the attributes of recommended items; none of an item that has been removed since."""
    recommender, described, size = service.recommender, list[dict[str, Any]](), 0
    for item, _ in best:
        own = recommender.item(item) if recommender.has_item(item) else {}
        size += len(msgspec.json.encode(own))
        if size > messages.MOST_DESCRIBED:
            message = f"the attributes of {len(best)} items take more than {messages.MOST_DESCRIBED} bytes"
            raise refused("n", f"{message}; ask for fewer, or leave out describe")
        described.append(own)
    return described


async def explain(service: Service, request: ExplainRequest, _: str) -> Explanation:
    """Return the terms that add up to the score of an item for a user."""
    await service.known_up_to(request.after)
    _check_asked(request.context, request.attributes, None)
    now, attributes = seconds(request.time), request.attributes
    addends = service.recommender.serving.addends(
        request.user, request.item, context=request.context, time=now, attributes=attributes
    )
    available = service.recommender.is_available(request.item, now)
    return Explanation(addends.score, await asyncio.to_thread(_terms, addends, MOST_TERMS), available)


def _terms(addends: Addends, most: int) -> list[Term]:
    return [Term(list(term.features), term.value) for term in explained(addends, most).terms]


def _values(given: Any) -> int:
    """Count the values in a field, those of lists and conditions one by one."""
    if isinstance(given, dict):
        return sum(map(_values, given.values()))
    return len(given) if isinstance(given, list) else 1


def _check_asked(context: messages.Fields, attributes: messages.Fields | None, where: messages.Where | None) -> None:
    """Raise `InvalidInput` for a request with more values than one turn of the event loop should handle."""
    given: dict[str, Mapping[str, Any]] = {"context": context, "attributes": attributes or {}, "where": where or {}}
    counts = {name: sum(map(_values, own.values())) for name, own in given.items()}
    total = sum(counts.values())
    if total > messages.MOST_ASKED:
        message = f"{', '.join(given)} must not have more than {messages.MOST_ASKED} values together, got {total}"
        raise refused(max(counts, key=lambda name: counts[name]), f"{message}; leave some out")
