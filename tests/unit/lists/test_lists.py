"""Lists that are not for one user, rules on a list, and a visitor who is known by a history alone."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from coldstream import Boost, Categories, Category, Event, Id, InvalidInput, Recommender, Rules, Schema, UnknownId
from coldstream.catalogue.catalogue import Catalogue
from coldstream.lists.non_personalized import item_vectors
from coldstream.lists.rules import _asked
from coldstream.recommender import Recommendation

SCHEMA = Schema(item=[Id(), Category("brand"), Categories("tags")])


@pytest.fixture(scope="module")
def shop() -> Recommender:
    """Two tastes, of even and of odd items; brands go across them."""
    recommender = Recommender(SCHEMA, factors=8, negatives=10, seed=1)
    recommender.put_items((f"i{n}", {"brand": f"b{n % 6}", "tags": [f"t{n % 2}"]}) for n in range(60))
    draws = np.random.default_rng(0)
    recommender.train(
        [Event(f"u{n % 50}", f"i{2 * draws.integers(0, 25) + n % 2}", float(60 * n)) for n in range(1500)], epochs=2
    )
    return recommender


# Similar items


def test_similar_items_are_chosen_together(shop: Recommender) -> None:
    for item in ("i2", "i7"):
        best = shop.similar(item, 8)
        assert len(best) == 8
        assert all(int(one.item[1:]) % 2 == int(item[1:]) % 2 for one in best), best
        assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
        assert item not in [one.item for one in best]
        assert all(one.score <= 1.0 for one in best)


def test_a_new_item_is_known_by_its_attributes(shop: Recommender) -> None:
    again = Recommender.from_state(*shop.state())
    again.put_item("new", {"brand": "b1", "tags": ["t0"]})
    assert {int(one.item[1:]) % 2 for one in again.similar("new", 5)} == {0}


def test_vectors_are_those_of_the_scan(shop: Recommender) -> None:
    vectors, shared = item_vectors(shop.engine.shared), shop.engine.shared
    theta, items = shared.machine.parameters.theta, shared.catalogue.items
    for position in range(0, items.size, 7):
        own = np.zeros(8)
        for column, value in shared.catalogue.shared_features(position):
            own += value * theta.V[column]
        if not items.rows.unchosen[position]:
            own += theta.V[items.rows.id_column[position]]
        np.testing.assert_allclose(vectors[position], own, rtol=1e-5, atol=1e-6)


def test_similar_items_keep_to_filters(shop: Recommender) -> None:
    best = shop.similar("i2", 5, where={"brand": "b4"}, deny=["i4"])
    assert best
    assert all(shop.item(one.item)["brand"] == "b4" and one.item != "i4" for one in best)
    with pytest.raises(UnknownId, match="'nothing' is not in the catalogue"):
        shop.similar("nothing")


def test_without_vectors_and_neighbours_there_is_still_a_list() -> None:
    recommender = Recommender(SCHEMA, factors=0, negatives=2, neighbours=0)
    recommender.put_items((f"i{n}", {}) for n in range(4))
    assert [one.item for one in recommender.similar("i1", 2)] == ["i0", "i2"]


@pytest.mark.parametrize("item", ["i2", "i7", "i55"])
def test_how_alike_items_are_is_what_the_definition_says(shop: Recommender, item: str) -> None:
    """s cosine of choices + (1 − s) cosine of vectors, with s = n / (n + 10) for an item that was chosen n times."""
    catalogue, vectors = shop.engine.shared.catalogue, item_vectors(shop.engine.shared).astype(np.float64)
    items, slot = catalogue.items, catalogue.slot(item)
    choices, rows = items.choices, items.neighbours
    entries = range(rows.start[slot], rows.start[slot] + rows.length[slot])
    together = {int(rows.partner[at]): int(rows.together[at]) for at in entries}
    share = choices[slot] / (choices[slot] + 10.0)
    expected, own = {}, vectors[items.position[slot]]
    for other in catalogue.live().tolist():
        theirs = vectors[items.position[other]]
        alike = own @ theirs / (np.linalg.norm(own) * np.linalg.norm(theirs))
        cosine = min(together.get(other, 0) / np.sqrt(max(choices[other], 1) * max(choices[slot], 1)), 1.0)
        expected[catalogue.ids[other]] = share * cosine + (1.0 - share) * alike
    del expected[item]
    found = shop.similar(item, 100)
    assert {one.item: one.score for one in found} == pytest.approx(expected, abs=1e-5)
    assert shop.similar(item, 7) == found[:7]


# Trending and new


def test_trending_is_how_often_lately() -> None:
    recommender = Recommender(Schema(), factors=2, negatives=2, trends=(4.0, 1000.0))
    for n, item in enumerate(["old"] * 30 + ["now"] * 8 + ["also"] * 2):
        recommender.learn(Event(f"u{n}", item))
    recommender.put_item("never")
    assert [one.item for one in recommender.trending(half_life=4)] == ["now", "also", "old"]
    assert [one.item for one in recommender.trending(half_life=900)] == ["old", "now", "also"]
    assert recommender.trending(1, half_life=1e6)[0].score == pytest.approx(30, rel=0.05)
    assert recommender.trending() == recommender.trending(half_life=4) == recommender.trending(half_life=60)
    assert recommender.trending(half_life=66) == recommender.trending(half_life=1000), "nearest by its logarithm"
    assert [one.item for one in recommender.trending(deny=["now"])] == ["also", "old"]


def test_a_trend_counts_what_was_forgotten_by_half() -> None:
    recommender = Recommender(Schema(), factors=2, negatives=2, trends=(10.0,))
    for n, item in enumerate(["a"] * 5 + ["b"] * 10):
        recommender.learn(Event(f"u{n}", item))
    counts = {one.item: one.score for one in recommender.trending()}
    # The clock stands at the event to come: what was chosen n events ago has faded by n.
    wanted = {"a": sum(2 ** (-n / 10) for n in range(11, 16)), "b": sum(2 ** (-n / 10) for n in range(1, 11))}
    assert counts == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("half_life", [0, -1, float("inf"), float("nan"), "long", True])
def test_a_half_life_is_a_number_above_0(half_life: object) -> None:
    recommender = Recommender(Schema(), factors=2)
    with pytest.raises(InvalidInput, match="half_life must be a number of events above 0"):
        recommender.trending(half_life=half_life)


def test_without_a_trend_nothing_is_trending() -> None:
    with pytest.raises(InvalidInput, match="trending must have a trend"):
        Recommender(Schema(), factors=2, trends=()).trending()


def test_the_newest_come_first(shop: Recommender) -> None:
    assert [one.item for one in shop.newest(3)] == ["i59", "i58", "i57"]
    assert [one.item for one in shop.newest(2, where={"brand": "b0"})] == ["i54", "i48"]


def test_what_is_not_available_is_in_no_list() -> None:
    recommender = Recommender(SCHEMA, factors=2, negatives=2)
    for name, hidden in (("a", False), ("b", True), ("c", False)):
        recommender.put_item(name, {"brand": "x"}, hidden=hidden, available_until=100.0 if name == "c" else None)
        recommender.learn(Event("ann", name, 5.0))
    for listed in (recommender.newest, recommender.trending, lambda **given: recommender.similar("a", **given)):
        assert "b" not in [one.item for one in listed(time=50.0)]
        assert "c" in [one.item for one in listed(time=50.0)]
        assert "c" not in [one.item for one in listed(time=150.0)]


# Rules


def by_rank(recommender: Recommender, user: str, **given: object) -> list[str]:
    return [one.item for one in recommender.recommend(user, 100, **given)]


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("n", [3, 5, 10, 30])
def test_caps_give_what_going_down_the_whole_ranking_gives(shop: Recommender, most: int, n: int) -> None:
    ranking, counts, expected = by_rank(shop, "u3"), Counter[str](), []
    for item in ranking:
        brand = shop.item(item)["brand"]
        if counts[brand] < most and len(expected) < n:
            counts[brand] += 1
            expected.append(item)
    assert [one.item for one in shop.recommend("u3", n, rules=Rules(most_per={"brand": most}))] == expected


def test_caps_of_sets_count_every_value(shop: Recommender) -> None:
    again = Recommender.from_state(*shop.state())
    again.put_item("both", {"tags": ["t0", "t1"]})
    listed = again.recommend("u1", 30, rules=Rules(most_per={"tags": 4}))
    counts = Counter(tag for one in listed for tag in again.item(one.item)["tags"])
    assert max(counts.values()) <= 4
    assert len(listed) in (7, 8)


def test_caps_of_one_rare_field_find_what_is_far_down() -> None:
    recommender = Recommender(SCHEMA, factors=2, negatives=2)
    recommender.put_items((f"i{n}", {"brand": "big" if n < 500 else f"b{n}"}) for n in range(505))
    for n in range(40):
        recommender.learn(Event(f"u{n}", f"i{n}"))
    listed = recommender.recommend("new", 4, rules=Rules(most_per={"brand": 1}))
    assert len(listed) == 4
    assert len({recommender.item(one.item)["brand"] for one in listed}) == 4


def test_boosts_bring_forward_and_bury(shop: Recommender) -> None:
    plain = by_rank(shop, "u3")
    first, last = plain[0], plain[-1]
    brand = shop.item(last)["brand"]
    forward = shop.recommend("u3", 3, rules=Rules([Boost({"brand": brand}, 1e6)]))
    assert {shop.item(one.item)["brand"] for one in forward} == {brand}
    buried = by_rank(shop, "u3", rules=Rules([Boost({"brand": shop.item(first)["brand"]}, 1e-6)]))
    assert shop.item(buried[-1])["brand"] == shop.item(first)["brand"]
    assert sorted(buried) == sorted(plain)
    scores = {one.item: one.score for one in shop.recommend("u3", 100)}
    doubled = {one.item: one.score for one in shop.recommend("u3", 100, rules=Rules([Boost({"brand": brand}, 2)]))}
    for item, score in scores.items():
        added = np.log(2) if shop.item(item)["brand"] == brand else 0.0
        assert doubled[item] == pytest.approx(score + added, abs=1e-5)


def test_no_rules_at_all_change_no_digit(shop: Recommender) -> None:
    assert shop.recommend("u3", 20, rules=Rules()) == shop.recommend("u3", 20)
    assert shop.recommend("u3", 20, rules=Rules([Boost({"brand": "unheard of"}, 5)])) == shop.recommend("u3", 20)


def test_pins_stand_where_they_are_pinned(shop: Recommender) -> None:
    plain = by_rank(shop, "u3")
    had = next(f"i{n}" for n in range(50) if f"i{n}" not in plain)
    pins = {1: plain[-1], 4: had, 3: "nothing", 99: plain[-2]}
    listed = [one.item for one in shop.recommend("u3", 5, rules=Rules(pins=pins))]
    assert listed == [plain[-1], plain[0], plain[1], had, plain[2]]
    assert shop.recommend("u3", 5, rules=Rules(pins=pins))[0].score == shop.predict("u3", plain[-1])
    denied = [one.item for one in shop.recommend("u3", 5, deny=[plain[-1]], rules=Rules(pins=pins))]
    assert plain[-1] not in denied
    assert len(denied) == 5


def test_what_is_pinned_counts_towards_a_cap(shop: Recommender) -> None:
    pinned = by_rank(shop, "u3")[-1]
    listed = shop.recommend("u3", 5, rules=Rules(most_per={"brand": 1}, pins={2: pinned}))
    assert listed[1].item == pinned
    assert len({shop.item(one.item)["brand"] for one in listed}) == 5


def test_diversity_makes_a_list_more_different_and_worse(shop: Recommender) -> None:
    vectors = item_vectors(shop.engine.shared)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def alike(diversity: float) -> tuple[float, float]:
        listed = shop.recommend("u3", 8, rules=Rules(diversity=diversity))
        own = vectors[
            [shop.engine.shared.catalogue.items.position[shop.engine.shared.catalogue.slot(one.item)] for one in listed]
        ]
        return float((own @ own.T).mean()), sum(one.score for one in listed)

    assert [one.item for one in shop.recommend("u3", 8, rules=Rules(diversity=1e-9))] == by_rank(shop, "u3")[:8]
    (near, best), (middle, good), (far, fair) = alike(0.0), alike(0.5), alike(1.0)
    assert near > middle >= far
    assert best > good >= fair


@pytest.mark.parametrize("diversity", [0.2, 0.7, 1.0])
@pytest.mark.parametrize("most", [None, 1])
def test_diversity_is_the_trade_off_that_the_definition_says(shop: Recommender, diversity: float, most: int | None) -> None:
    """Maximal marginal relevance, one by one, of all that may be recommended: there are fewer than a hundred."""
    ranking = shop.recommend("u3", 100)
    theta, catalogue = shop.engine.shared.machine.parameters.theta, shop.engine.shared.catalogue
    own = {}
    for one in ranking:
        position = catalogue.items.position[catalogue.slot(one.item)]
        features = [(catalogue.items.rows.id_column[position], 1.0), *catalogue.shared_features(position)]
        own[one.item] = sum(value * theta.V[column].astype(np.float64) for column, value in features)
    lowest, highest = ranking[-1].score, ranking[0].score
    left, taken, brands = list(ranking), list[str](), Counter[str]()
    while len(taken) < 6:

        def worth(one: Recommendation) -> float:
            v = own[one.item]
            near = [own[item] @ v / (np.linalg.norm(own[item]) * np.linalg.norm(v)) for item in taken]
            relevance = (one.score - lowest) / (highest - lowest)
            return float((1.0 - diversity) * relevance - diversity * max([0.0, *near]))

        best = max(left, key=worth)
        left.remove(best)
        if most is None or brands[shop.item(best.item)["brand"]] < most:
            brands[shop.item(best.item)["brand"]] += 1
            taken.append(best.item)
    caps = {} if most is None else {"brand": most}
    assert [one.item for one in shop.recommend("u3", 6, rules=Rules(most_per=caps, diversity=diversity))] == taken


def test_so_many_are_looked_at_for_a_list() -> None:
    assert [_asked(Rules(), n) for n in (1, 50)] == [1, 50]
    assert [_asked(Rules(diversity=0.1), n) for n in (1, 10, 11)] == [100, 100, 110]
    assert [_asked(Rules(most_per={"brand": 1}), n) for n in (1, 50)] == [20, 216]


def test_rules_go_so_far_and_are_what_they_were_where_something_is_left_out() -> None:
    boost = Boost({"brand": "x"})
    assert (boost.factor, Rules().boosts, Rules().diversity) == (2.0, (), 0.0)
    assert [Boost({}, factor).factor for factor in (1e-9, 1e9)] == [1e-9, 1e9]
    for factor in (0.9e-9, 1.1e9, True, "2"):
        with pytest.raises(InvalidInput, match="boost: factor must be"):
            Boost({}, factor)
    assert len(Rules([boost] * 64).boosts) == 64
    Rules(most_per={f"f{n}": 1 for n in range(64)}, pins={n: f"i{n}" for n in range(1, 65)}, diversity=1)
    for too_many in ({"boosts": [boost] * 65}, {"most_per": {f"f{n}": 1 for n in range(65)}}):
        with pytest.raises(InvalidInput, match="must be at most 64, got 65"):
            Rules(**too_many)
    assert len({Rules([boost], {"brand": 1}, {1: "a"}), Rules([boost], {"brand": 1}, {1: "a"})}) == 1, "they have a hash"


def test_fewer_come_back_where_fewer_are_left(shop: Recommender) -> None:
    brands = Counter(shop.item(item)["brand"] for item in by_rank(shop, "u3"))
    assert len(shop.recommend("u3", 50, rules=Rules(most_per={"brand": 2}))) == sum(min(2, n) for n in brands.values())
    assert shop.recommend("u3", 5, allow=[], rules=Rules(most_per={"brand": 1}, diversity=0.5, pins={1: "i3"})) == []


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (lambda: Rules(diversity=2), "diversity must be a number from 0 to 1, got 2"),
        (lambda: Rules(most_per={"brand": 0}), "most_per: brand must be a whole number of 1 or more, got 0"),
        (lambda: Rules(pins={0: "a"}), "pins: a position must be a whole number of 1 or more, got 0"),
        (lambda: Rules(pins={1: "a", 2: "a"}), "pins must name an item once"),
        (lambda: Rules(boosts=[3]), "boosts must be a list of Boost, got [3]"),
        (lambda: Rules(pins={n: f"i{n}" for n in range(1, 66)}), "pins must be at most 64, got 65"),
        (lambda: Boost({"brand": "x"}, 0), "boost: factor must be a number from 1e-9 to 1e9, got 0"),
        (lambda: Boost("brand"), "boost: where must be a mapping"),
    ],
)
def test_rules_that_make_no_sense_are_refused(rules: Callable[[], Rules], said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        rules()
    assert str(raised.value).startswith(said)


def test_rules_name_fields_that_are_there(shop: Recommender) -> None:
    with pytest.raises(InvalidInput, match=r"most_per must name an item field of categories \(brand, tags\), got 'colour'"):
        shop.recommend("u3", rules=Rules(most_per={"colour": 1}))
    with pytest.raises(InvalidInput, match="where: unknown field 'colour'"):
        shop.recommend("u3", rules=Rules([Boost({"colour": "red"})]))
    with pytest.raises(InvalidInput, match="rules must be Rules"):
        shop.recommend("u3", rules={"diversity": 1})


# A visitor without a user


def test_a_history_counts_as_the_past_of_one_who_chose_it(shop: Recommender) -> None:
    again = Recommender.from_state(*shop.state())
    history = ["i4", "nothing", "i8", "i4", "i10"]
    asked = again.recommend(None, 20, history=history)
    assert not {"i4", "i8", "i10"} & {one.item for one in asked}
    for item in ("i4", "i8", "i4", "i10"):
        again.observe(Event("visitor", item))
    # An id that was only observed has a column with a vector of its own, so it is another than nobody's.
    user = again.engine.users["visitor"]
    encoded = again.serving.encode_request(None, 5, history=[item for item in history if item != "nothing"])
    assert encoded.history.recent.tolist() == again.engine.users.history(user).recent.tolist()
    assert encoded.history.seen.tolist() == again.engine.users.history(user).seen.tolist()
    assert encoded.history.times.tolist() == again.engine.users.history(user).times.tolist()


def test_a_history_leads_to_its_taste_and_changes_nothing(shop: Recommender) -> None:
    before = shop.state()[1]
    for parity in (0, 1):
        listed = shop.recommend(None, 6, history=[f"i{n}" for n in range(10 + parity, 20, 2)])
        assert sum(int(one.item[1:]) % 2 == parity for one in listed) >= 5
    after = shop.state()[1]
    assert all(np.array_equal(before[name], after[name], True) for name in before)
    assert shop.recommend(None, 5, history=[]) == shop.recommend(None, 5)


def test_a_user_and_a_history_exclude_each_other(shop: Recommender) -> None:
    with pytest.raises(InvalidInput, match="history must be left out for a user, got it for 'u1'"):
        shop.recommend("u1", history=["i1"])
    with pytest.raises(InvalidInput, match="history must be a list of item ids, got 'i1'"):
        shop.recommend(None, history="i1")


def test_boosts_are_looked_up_a_step_at_a_time_and_then_kept(shop: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules(boosts=[Boost({"brand": f"b{n}", "tags": {"not": [f"t{n}"]}}, 2.0) for n in range(64)])
    expected = shop.serving.recommend_ruled(shop.serving.encode_request("u1", 5), rules)
    again = Recommender.from_state(*shop.state())
    steps = again.serving.look_up_in_steps(rules)
    next(steps)
    again.put_item("i1", {"brand": "b1", "tags": ["t1"]})  # items change, and what was looked up is looked up again
    assert 64 < len(list(steps)) < 192
    monkeypatch.setattr(Catalogue, "refused", None)
    assert again.serving.recommend_ruled(again.serving.encode_request("u1", 5), rules) == expected
