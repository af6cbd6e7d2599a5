"""A user who chooses an item again and again counts less each time in what others see."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import Event, Feedback, Id, Recommender, Schema
from coldstream.users.states import Seen
from conftest import bits

KINDS = (Feedback("view", 0.2), Feedback("cart", 0.5), Feedback("purchase", 1), Feedback("dislike", -1))


def counts_by_definition(past: list[int], item: int) -> bool:
    """Whether the next choice of an item counts after a past of choices: the rule in words, without its arithmetic."""
    if item not in past:
        return True
    number = 1 + past.count(item)
    others = {other for other in past[len(past) - past[::-1].index(item) :] if other != item}
    every, end = 1, 2 * (1 + len(others))
    while number >= end:  # the first 1 + d count, and while the number doubles, half as many of the rest
        every, end = 2 * every, 2 * end
    return number % every == 0


@given(st.lists(st.integers(0, 3) | st.just(0), max_size=120))
def test_which_choices_count_is_as_defined(choices: list[int]) -> None:
    seen = Seen()
    for number, item in enumerate(choices):
        assert seen.counts(item) == counts_by_definition(choices[:number], item)
        seen.add(item, None)


@pytest.mark.parametrize(
    ("items", "counted"),
    [(["a"] * 1500, {"a": 11}), (["a", "b"] * 1500, {"a": 20, "b": 20}), ([f"i{n}" for n in range(20)] * 15, {"i7": 15})],
)
def test_a_burst_counts_by_the_logarithm_and_many_habits_count_in_full(items: list[str], counted: dict[str, int]) -> None:
    recommender = Recommender(Schema(item=[Id()], exclude_seen=False), factors=2, negatives=2, seed=1)
    recommender.engine.replay([(n, Event("u", item)) for n, item in enumerate(items, 1)])
    assert {item: chosen(recommender)[item] for item in counted} == counted


def chosen(recommender: Recommender) -> dict[str, int]:
    """How often each item counts as chosen."""
    catalogue = recommender.engine.shared.catalogue
    return {item: int(catalogue.items.choices[catalogue.slot(item)]) for item in catalogue.registered()}


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_what_one_account_chooses_1500_times_does_not_enter_the_lists_of_others(exclude_seen: bool) -> None:
    """With other seeds it is as here. If repeats counted like other choices, 62 to 99 % of the lists would hold the item."""
    rng = np.random.default_rng(0)
    odds = np.exp(rng.normal(size=(200, 3)) @ rng.normal(size=(3, 300)) - np.log(np.arange(1, 301)))
    odds /= odds.sum(axis=1, keepdims=True)
    events = [Event(f"u{user}", f"i{rng.choice(300, p=odds[user])}") for user in rng.integers(200, size=3000).tolist()]
    recommender = Recommender(Schema(exclude_seen=exclude_seen), factors=8, negatives=20, seed=1)
    recommender.learn(events)
    count = Counter(event.item for event in events)
    rarest = min(count, key=lambda item: (count[item], item))

    def share() -> float:
        lists = [[one.item for one in recommender.recommend(f"u{user}", 10)] for user in range(200)]
        return sum(rarest in own for own in lists) / len(lists)

    assert share() <= 0.01
    recommender.learn([Event("attacker", rarest)] * 1500)
    assert share() <= 0.1


@pytest.mark.parametrize("kind", [None, "purchase", "dislike"])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_a_repeat_that_does_not_count_is_learned_from_only_where_the_user_may_get_the_item_again(
    exclude_seen: bool, kind: str | None
) -> None:
    recommender = Recommender(Schema(feedback=KINDS, exclude_seen=exclude_seen), factors=2, negatives=2, seed=1)
    recommender.put_items((f"i{n}", {}) for n in range(5))
    learned = []
    for _ in range(4):
        before = recommender.engine.shared.machine.parameters.rows.w.copy()
        recommender.learn(Event("u", "i1", kind=kind))
        after = recommender.engine.shared.machine.parameters.rows.w
        learned.append(not np.array_equal(before, after[: len(before)]))
    assert learned == [True, True, not exclude_seen, True]


SHOP = Schema(item=[Id()], feedback=KINDS)


def test_kinds_that_are_not_had_count_less_when_repeated_and_take_nothing_from_a_purchase() -> None:
    recommender = Recommender(SHOP, factors=2, negatives=2, seed=1)
    recommender.learn([Event("u", "a", kind="view"), Event("u", "a", kind="cart"), Event("u", "a", kind="purchase")])
    assert chosen(recommender)["a"] == 2, "a view is no choice, and the first of each other kind counts"
    recommender.learn([Event("u", "a", kind=kind) for _ in range(500) for kind in ("view", "cart", "purchase")])
    assert chosen(recommender)["a"] == 2 * 9, "1, 2, 4, … 256 of 501 carts, and as many purchases"
    restored = Recommender.from_state(*recommender.state())
    for one in (recommender, restored):
        one.learn([Event("u", "a", kind="cart")] * 11)
        assert chosen(one)["a"] == 2 * 9 + 1, "the 512th"


def test_an_item_that_was_tried_is_still_recommended() -> None:
    recommender = Recommender(SHOP, factors=2, negatives=2, seed=1)
    recommender.learn([Event("v", "a"), Event("v", "b"), Event("u", "a", kind="cart"), Event("u", "b", kind="purchase")])
    assert [one.item for one in recommender.recommend("u")] == ["a"]


def test_carts_of_a_session_are_carts_of_the_user_it_is_merged_into() -> None:
    recommender = Recommender(SHOP, factors=2, negatives=2, seed=1)
    for user in ("u", "session"):
        recommender.learn([Event(user, "a", kind="cart")] * 2)
    recommender.merge_user("session", "u")
    before = chosen(recommender)["a"]
    recommender.learn([Event("u", "a", kind="cart")] * 3)
    assert (before, chosen(recommender)["a"]) == (4, 4), "the fifth to the seventh"
    recommender.learn(Event("u", "a", kind="cart"))
    assert chosen(recommender)["a"] == 5


def test_what_was_tried_goes_with_the_user_and_with_the_item() -> None:
    recommender = Recommender(SHOP, factors=2, negatives=2, seed=1)
    recommender.learn([Event("u", "a", kind="cart"), Event("u", "b", kind="cart")])
    assert recommender.engine.users.seen == 2
    recommender.remove_item("a")
    for n in range(2000):  # until the slot of the item that went is used again
        recommender.put_item(f"c{n}")
        recommender.remove_item(f"c{n}")
    recommender.learn(Event("u", "b", kind="cart"))
    assert recommender.engine.users.seen == 1
    recommender.forget_user("u")
    assert recommender.engine.users.seen == 0


def test_a_user_remembers_the_last_hundred_items_that_were_tried() -> None:
    recommender = Recommender(SHOP, factors=2, negatives=2, seed=1)
    recommender.learn([Event("u", f"i{n}", kind="cart") for n in range(150)])
    assert len(recommender.engine.users["u"].tried) == 100
    assert recommender.engine.users.seen == 100


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 3), st.sampled_from([None, "view", "cart", "purchase", "dislike"])),
        min_size=1,
        max_size=40,
    ),
    st.booleans(),
)
def test_repeats_lead_to_the_same_bits_one_by_one_and_many_at_once(
    given_events: list[tuple[int, int, str | None]], exclude_seen: bool
) -> None:
    schema = Schema(item=[Id()], feedback=KINDS, exclude_seen=exclude_seen)
    one_by_one, many, replayed, observed, all_observed, trained = (
        Recommender(schema, factors=2, negatives=2, seed=1) for _ in range(6)
    )
    events = [Event(f"u{user}", f"i{item}", kind=kind) for user, item, kind in given_events]
    for event in events:
        one_by_one.learn(event)
        observed.observe(event)
    many.learn(events)
    lines = list(enumerate(events, 1))
    replayed.engine.replay(lines)
    all_observed.engine.replay_observed(lines)
    trained.train(events)
    assert bits(one_by_one) == bits(many) == bits(replayed)
    assert bits(observed) == bits(all_observed)
    learned = one_by_one.state()[1]
    for other in (observed.state()[1], trained.state()[1]):
        for name in learned:
            if name.startswith(("catalogue.", "users.")):
                np.testing.assert_array_equal(other[name], learned[name], err_msg=name)
