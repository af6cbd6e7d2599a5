"""A dictionary in which as many go as come has the size that it keeps soon after that has begun."""

from collections.abc import Callable
from itertools import count
from sys import getsizeof

import pytest

from coldstream import Bounds, Category, Event, Id, Recommender, Schema
from coldstream.engine import eviction
from coldstream.turnover import Turnover


def a_quarter_went(own: dict[str, int], turnover: Turnover) -> None:
    """Nothing does, but it is told."""
    for _ in range(len(own) // 4 + 1):
        turnover.goes_on(own, 1)


def turned_over(own: dict[str, int], times: int, turnover: Turnover | None = None) -> int:
    """The size after as many came and went, in portions, as there are so many times."""
    new, portion = count(), max(1, len(own) // 256)
    for _ in range(times * len(own) // portion):
        for gone in list(own)[:portion]:
            del own[gone]
        own |= {f"new {next(new)}": 0 for _ in range(portion)}
        if turnover is not None:
            turnover.goes_on(own, portion)
    return getsizeof(own)


@pytest.mark.parametrize("length", [10, 700, 3000, 5000])
def test_it_has_the_size_soon_that_it_has_after_all_went_three_times(length: int) -> None:
    plain, seen = {f"{n}": n for n in range(length)}, set[int]()
    last = turned_over(dict(plain), 3)
    own, turnover = dict(plain), Turnover()
    a_quarter_went(own, turnover)
    assert own == plain
    assert list(own) == list(plain)
    assert getsizeof(own) == last
    for _ in range(3):
        seen.add(turned_over(own, 1, turnover))
    assert seen == {last}


def test_without_it_it_doubles_late() -> None:
    """The reason for all this; should Python change, it can go."""
    own = {f"{n}": n for n in range(5000)}
    assert turned_over(dict(own), 3) > 1.9 * getsizeof(own)


def test_one_that_grows_begins_again() -> None:
    own, turnover = {f"{n}": n for n in range(1000)}, Turnover()
    a_quarter_went(own, turnover)
    own |= {f"more {n}": n for n in range(9000)}
    last = turned_over(dict(own), 3)
    a_quarter_went(own, turnover)
    assert getsizeof(own) == last


def test_a_key_of_its_own_is_left_alone() -> None:
    own = {"nobody": 1, "nobody?": 2}
    Turnover().goes_on(own, 1)
    assert own == {"nobody": 1, "nobody?": 2}


def full_of(memory: str, new: int) -> tuple[Recommender, Callable[[], list[int]], Callable[[int], None]]:
    """A recommender, its dictionaries' sizes, and what has so much go of it. One in so many events brings what is new."""
    schema = Schema(user=[Id()], item=[Id()], context=[Category("campaign")])
    recommender = Recommender(schema, "paper", factors=2, bounds=Bounds(memory=memory))
    recommender.put_item("i")

    def sizes() -> list[int]:
        users, shared = recommender.engine.users, recommender.engine.shared
        assert users.use is not None
        field = shared.encoder.vocabulary.field("context.campaign")
        assert field is not None
        columns = shared.encoder.vocabulary._columns
        return [getsizeof(one) for one in (users._packed, users.use._rows, columns[0], columns[field])]

    def went(most: int) -> None:
        while sum(recommender.memory.gone.values()) < most:
            n = recommender.position
            events = [(n + k, (n + k) // new) for k in range(1, 101)]
            recommender.engine.replay([(t, Event(f"u{own}", "i", context={"campaign": f"c{own}"})) for t, own in events])

    return recommender, sizes, went


def test_dictionaries_of_a_full_budget_have_their_size_before_a_quarter_of_it_went() -> None:
    recommender, sizes, went = full_of("5 MiB", 1)
    went(1)
    full = len(recommender.users()) + recommender.inspection.count("context.campaign")
    went(full // 4)
    soon = sizes()
    went(3 * full)
    assert sizes() == soon


def test_where_a_budget_fills_slowly_they_have_it_before_anything_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "COUNTED", 8)
    monkeypatch.setattr(eviction, "TURNED", 64)
    recommender, sizes, went = full_of("3 MiB", 4)
    went(1)
    full, soon = len(recommender.users()) + recommender.inspection.count("context.campaign"), sizes()
    went(3 * full)
    assert sizes() == soon
