"""Negatives: uniform over what could have been chosen, and a function of (seed, event number) alone."""

import numpy as np

from coldstream import Recommender, Schema
from coldstream.catalogue.contrast import Draws, _draw
from coldstream.model.compiled import kernel
from coldstream.model.counter import key_of


@kernel
def draw(items, draws, positive, had, slots):
    return _draw(items, draws, positive, had, slots)


def catalogue(n: int):
    recommender = Recommender(Schema(), "paper")
    for item in range(n):
        recommender.put_item(f"i{item}")
    return recommender._known.catalogue.items


def drawn(items, event: int, positive: int, had: list[int], negatives: int = 20, seed: int = 1) -> list[int]:
    slots = np.empty(negatives + 1, np.int32)
    found = draw(items, Draws(key_of(seed, "negatives"), event, negatives, True), positive, np.array(had, np.int32), slots)
    return slots[:found].tolist()


def test_neither_the_positive_nor_what_the_user_had() -> None:
    items = catalogue(30)
    for event in range(200):
        positive, *negatives = drawn(items, event, 4, [1, 2, 3, 29])
        assert positive == 4
        assert len(negatives) == 20
        assert not {1, 2, 3, 4, 29} & set(negatives)


def test_uniform_over_the_rest() -> None:
    items = catalogue(12)
    counts = np.zeros(12)
    for event in range(3000):
        for slot in drawn(items, event, 0, [11])[1:]:
            counts[slot] += 1
    assert counts[0] == counts[11] == 0
    assert ((counts[1:11] - 6000) ** 2 / 6000).sum() < 30  # nine degrees of freedom: beyond 28 once in a thousand


def test_the_same_event_draws_the_same_and_another_draws_others() -> None:
    items = catalogue(500)
    assert drawn(items, 7, 0, []) == drawn(items, 7, 0, [])
    assert drawn(items, 7, 0, []) != drawn(items, 8, 0, [])
    assert drawn(items, 7, 0, []) != drawn(items, 7, 0, [], seed=2)


def test_few_are_found_where_few_are_left() -> None:
    items = catalogue(3)
    assert drawn(items, 0, 0, [1, 2]) == [0]
    assert set(drawn(items, 0, 0, [1])) == {0, 2}
