"""An explanation is bounded, whatever a request brings, and still adds up."""

import math
from collections import Counter

import numpy as np
import pytest

from coldstream import Categories, Category, Event, Id, InvalidInput, Recommendation, Recommender, Schema
from coldstream.lists import serving as module
from coldstream.lists.explanation import MOST_TERMS, REST, Addends, explained

TAGS, WORDS = [f"t{n}" for n in range(256)], [f"w{n}" for n in range(200)]


def learned(pairs: str) -> Recommender:
    schema = Schema(
        user=[Id(), Category("country")],
        item=[Id(), Category("brand"), Categories("genre", normalize=True)],
        context=[Categories("tags"), Categories("words", normalize=True), Category("device")],
    )
    recommender = Recommender(schema, seed=3, factors=5, negatives=4, pairs=pairs, initial_deviation=0.1)
    for n in range(9):
        recommender.put_item(f"i{n}", {"brand": f"b{n % 3}", "genre": [f"g{n % 4}", "g9"]})
    recommender.put_user("ann", {"country": "NL"})
    for n in range(12):
        recommender.learn(Event("ann", f"i{n % 9}", 60.0, {"tags": TAGS, "words": WORDS, "device": "phone"}))
    return recommender


def by_definition(addends: Addends) -> dict[tuple[str, ...], float]:
    """Every term by field, from all pairs of features one by one."""
    sides = [(side, n) for side in (addends.request, addends.item) for n in range(len(side.w))]
    terms: dict[tuple[str, ...], float] = Counter({(): addends.intercept})
    for i, (side, n) in enumerate(sides):
        terms[(side.fields[n],)] += float(side.w[n])
        for j, (other, m) in enumerate(sides):
            counts = {"across": i < j and side is not other, "j>i": i < j, "j>=i": i <= j}[addends.pairs]
            if counts:
                terms[side.fields[n], other.fields[m]] += float(side.V[n] @ other.V[m])
    return terms


@pytest.mark.parametrize("pairs", ["across", "j>i", "j>=i"])
def test_many_features_are_explained_by_field(pairs: str) -> None:
    recommender = learned(pairs)
    asked = {"tags": TAGS, "words": WORDS, "device": "phone"}
    for item in ("i0", "i5"):
        addends = recommender.serving.addends("ann", item, context=asked)
        explanation = recommender.explain("ann", item, context=asked)
        assert explanation.score == recommender.predict("ann", item, context=asked) == addends.score
        assert len(explanation.terms) < 100
        terms = {tuple(name.partition("=")[0] for name in term.features): term.value for term in explanation.terms}
        assert len(terms) == len(explanation.terms)
        expected = {names: value for names, value in by_definition(addends).items() if abs(value) > 1e-12}
        assert {names for names, value in terms.items() if abs(value) > 1e-12} == set(expected)
        assert [terms[names] for names in expected] == pytest.approx(list(expected.values()), rel=1e-9, abs=1e-9)
        assert ("context.tags", "item.genre") in terms
        assert any("user.country=NL" in term.features for term in explanation.terms)
        sizes = [abs(term.value) for term in explanation.terms]
        assert sizes == sorted(sizes, reverse=True)
        assert explanation.score == pytest.approx(math.fsum(terms.values()), rel=1e-5, abs=1e-5 * max(sizes))


@pytest.mark.parametrize("tags", [3, 256])
@pytest.mark.parametrize("most", [1, 2, 7])
def test_what_is_not_listed_is_one_term_that_keeps_the_sum(tags: int, most: int) -> None:
    recommender = learned("j>i")
    addends = recommender.serving.addends("ann", "i1", context={"tags": TAGS[:tags]})
    whole, some = explained(addends).terms, explained(addends, most).terms
    assert len(some) == most < len(whole)
    assert some[:-1] == whole[: most - 1]
    assert some[-1].features == (REST,)
    exact = math.fsum(term.value for term in whole)
    assert math.fsum(term.value for term in some) == pytest.approx(exact, rel=1e-13, abs=1e-13)


def test_a_request_of_thousands_of_features_makes_no_matrix_of_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [f"f{n}" for n in range(15)]
    schema = Schema(context=[Categories(name) for name in fields])
    recommender = Recommender(schema, factors=4, negatives=2, pairs="j>i", initial_deviation=0.1)
    context = {name: [f"{name}-{n}" for n in range(256)] for name in fields}
    recommender.learn(Event("u", "i", 0.0, context))
    largest = 0

    def watched(array: np.ndarray, k: int) -> np.ndarray:
        nonlocal largest
        largest = max(largest, array.size)
        return triu(array, k)

    triu = np.triu
    monkeypatch.setattr(np, "triu", watched)
    explanation = recommender.explain("u", "i", context=context)
    assert 0 < largest <= 40**2  # fields, not 3,840 features
    assert len(explanation.terms) <= MOST_TERMS
    total = math.fsum(term.value for term in explanation.terms)
    assert explanation.score == pytest.approx(total, abs=1e-4 * (1 + max(abs(t.value) for t in explanation.terms)))


def test_too_many_features_in_one_call_are_refused_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EXPLAINED_FEATURES", 300)
    recommender = learned("across")
    request = recommender.serving.encode_request("ann", 3, context={"tags": TAGS}, exclude_seen=False)
    (one,) = recommender.serving.addends_batch(request, [Recommendation("i1", 0.5)])
    assert one.score == 0.5
    with pytest.raises(InvalidInput, match=r"more than 300 features together, got .*; explain fewer"):
        recommender.serving.addends_batch(request, [Recommendation(f"i{n}", 0.5) for n in range(9)])
