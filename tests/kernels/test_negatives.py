"""Negatives: uniform over what could have been chosen, and a function of (seed, event's position) alone."""

import numpy as np

from coldstream import Availability, Recommender, Schema
from coldstream.catalogue.negative_sampling import NegativeDraw
from coldstream.catalogue.negative_sampling import draw as _draw
from coldstream.catalogue.shapes import Items
from coldstream.model.keyed_random import below, hashed, key_of
from coldstream.support.compiled import kernel


@kernel
def draw(items, draws, positive, seen, positions):
    return _draw(items, draws, positive, seen, positions)


def catalogue(n: int) -> Items:
    recommender = Recommender(Schema(), "paper")
    for item in range(n):
        recommender.put_item(f"i{item}")
    return recommender.engine.shared.catalogue.items


def drawn(
    items: Items,
    event: int,
    positive: int,
    seen: list[int],
    negatives: int = 20,
    seed: int = 1,
    exclude_seen: bool = True,
    time: float = 0.0,
    passed_over: tuple[int, ...] = (),
) -> list[int]:
    """Slots of the positive and of what was drawn against it."""
    positions = np.empty(negatives + 1 + len(passed_over), np.int32)
    draws = NegativeDraw(key_of(seed, "negatives"), event, negatives, exclude_seen, time, np.array(passed_over, np.int32))
    found = draw(items, draws, int(items.position[positive]), np.array(seen, np.int32), positions)
    assert not items.marked.any()  # whoever marks slots next finds none marked
    return items.rows.slot[positions[:found]].tolist()


def test_neither_the_positive_nor_what_the_user_had() -> None:
    items = catalogue(30)
    for event in range(200):
        positive, *negatives = drawn(items, event, 4, [1, 2, 3, 29])
        assert positive == 4
        assert len(negatives) == 20
        assert not {1, 2, 3, 4, 29} & set(negatives)


def test_a_negative_is_the_first_of_its_own_draws_that_may_be() -> None:
    """Of 32 for each, in order: what is drawn for an event is what logs lead to, in every release."""
    items, had = catalogue(12), {0, 3, 4, 5, 9}
    for event in range(50):
        key = np.uint64(hashed(key_of(1, "negatives"), event))
        expected = []
        for j in range(20):
            tried = (int(items.rows.slot[below(key, 32 * j + attempt, 12)]) for attempt in range(32))
            expected += [next(slot for slot in tried if slot not in had | {7})]
        assert drawn(items, event, 7, sorted(had)) == [7, *expected]


def test_what_the_user_had_can_be_drawn_where_people_choose_again() -> None:
    items = catalogue(30)
    found = [drawn(items, event, 4, [1, 2, 3, 29], exclude_seen=False) for event in range(200)]
    assert {positive for positive, *_ in found} == {4}
    assert {slot for _, *negatives in found for slot in negatives} == set(range(30)) - {4}


def test_items_are_told_by_slot_wherever_they_lie() -> None:
    """Where items have gone and come back, positions and slots differ; who had an item had its slot."""
    recommender = Recommender(Schema(), "paper")
    for item in range(30):
        recommender.put_item(f"i{item}")
    for item in (0, 1, 4, 7):
        recommender.remove_item(f"i{item}")
    for item in (4, 0):
        recommender.put_item(f"i{item}")
    items = recommender.engine.shared.catalogue.items
    assert items.rows.slot[: items.size].tolist() != list(range(items.size))
    found = [drawn(items, event, 4, [1, 2, 3, 29]) for event in range(300)]
    assert {positive for positive, *_ in found} == {4}
    assert {slot for _, *negatives in found for slot in negatives} == set(range(30)) - {1, 7} - {2, 3, 4, 29}


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


def limited(n: int) -> Recommender:
    """Items of which every third is hidden, and every third comes at 100 and goes at 200."""
    recommender = Recommender(Schema(), "paper")
    for item in range(n):
        own = [{}, {"hidden": True}, {"available_from": 100.0, "available_until": 200.0}][item % 3]
        recommender.put_item(f"i{item}", **own)
    return recommender


def test_what_was_not_available_is_no_negative() -> None:
    items = limited(30).engine.shared.catalogue.items
    always, seasonal = set(range(0, 30, 3)), set(range(2, 30, 3))
    for time, expected in ((99.0, always), (100.0, always | seasonal), (199.0, always | seasonal), (200.0, always)):
        found = [drawn(items, event, 0, [3], time=time) for event in range(200)]
        assert {slot for _, *negatives in found for slot in negatives} == expected - {0, 3}
        assert all(len(own) == 21 for own in found)


def test_few_in_season_are_found_among_many_that_are_not() -> None:
    """Thirty-two tries would leave most events without any negative."""
    recommender = Recommender(Schema(), "paper")
    recommender.put_items((f"i{item}", None, Availability(hidden=item >= 5)) for item in range(1000))
    items = recommender.engine.shared.catalogue.items
    found = [drawn(items, event, 0, []) for event in range(100)]
    assert sum(map(len, found)) > 0.95 * 100 * 21
    assert {slot for own in found for slot in own} == set(range(5))


def test_windows_that_hold_nothing_back_draw_the_same_as_none() -> None:
    recommender = limited(30)
    open_items, plain = limited(30), catalogue(30)
    for item in range(30):
        open_items.put_item(f"i{item}", available_until=1000.0)
    for event in range(50):
        assert drawn(open_items.engine.shared.catalogue.items, event, 4, [1]) == drawn(plain, event, 4, [1])
    assert drawn(recommender.engine.shared.catalogue.items, 1, 0, [1]) != drawn(plain, 1, 0, [1])


def test_what_was_passed_over_comes_behind_what_is_drawn_as_long_as_it_is_live() -> None:
    recommender = Recommender(Schema(), "paper")
    for item in range(30):
        recommender.put_item(f"i{item}")
    recommender.remove_item("i7")
    items = recommender.engine.shared.catalogue.items
    plain = drawn(items, 3, 4, [1])
    assert drawn(items, 3, 4, [1], passed_over=(9, 7, 4, 9, 2)) == [*plain, 9, 9, 2]
