"""The scan is exact over many blocks, and every path through the scorer gives the same bits."""

import math

import numpy as np
import pytest

from coldstream import Categories, Category, Event, Id, InvalidInput, Number, Recommender, Schema
from coldstream.scoring.blocks import BLOCK
from coldstream.scoring.scorer import _MOST_SUMS

ITEMS = 2 * BLOCK + 77  # three blocks, of which the last is neither full nor a multiple of eight
SCHEMA = Schema(
    item=[Id(), Category("brand"), Categories("genre", normalize=True), Number("price", scale=10), Category("shelf")],
    context=[Category("device")],
    exclude_seen=False,
)
SEEN_OUT = Schema(item=SCHEMA.item, context=SCHEMA.context)


def shop(pairs: str, schema: Schema = SCHEMA, **changes: object) -> Recommender:
    preset = "default" if pairs == "across" else "paper"
    recommender = Recommender(schema, preset, seed=3, pairs=pairs, factors=9, **changes)
    rng = np.random.default_rng(0)
    for n in range(ITEMS):
        own = {"brand": f"b{n % 37}", "genre": [f"g{n % 5}", f"g{n % 7 + 5}"], "price": float(rng.uniform(0, 50))}
        recommender.put_item(f"i{n}", own | ({"shelf": n % 3} if n % 4 else {}))
    for t in range(400):
        item = f"i{int(rng.random() ** 3 * ITEMS)}"
        recommender.learn(Event(f"u{t % 11}", item, 60.0 * t, {"device": "phone" if t % 2 else "desk"}))
    return recommender


@pytest.fixture(scope="module", params=["across", "j>i", "j>=i"])
def recommender(request: pytest.FixtureRequest) -> Recommender:
    return shop(request.param, initial_deviation=0.3)


def test_every_score_is_the_sum_of_its_terms(recommender: Recommender) -> None:
    listed = recommender.recommend("u3", ITEMS, context={"device": "phone"})
    assert sorted(r.item for r in listed) == sorted(recommender.items())
    for item, score in listed[::29] + listed[-3:]:
        why = recommender.explain("u3", item, context={"device": "phone"})
        assert math.fsum(term.value for term in why.terms) == pytest.approx(score, abs=1e-4 * (1 + abs(score)))
        assert why.score == score == recommender.predict("u3", item, context={"device": "phone"})


def test_alone_in_a_batch_and_filtered_the_bits_are_the_same(recommender: Recommender) -> None:
    users = ["u1", "u2", "stranger", None, "u5"]
    everything = {user: dict(recommender.recommend(user, ITEMS)) for user in users}
    denied = [f"i{n}" for n in range(0, ITEMS, 3)]
    filters = [{}, {"deny": denied}, {"where": {"brand": "b5"}}, {"allow": denied[:40]}, {"where": {"genre": ["g1", "g9"]}}]
    requests = [(user, n, own) for user in users for n in (1, 10, ITEMS) for own in filters]
    batch = recommender.serving.recommend_batch(
        [recommender.serving.encode_request(user, n, **own) for user, n, own in requests]
    )
    for (user, n, own), answer in zip(requests, batch, strict=True):
        assert answer == recommender.recommend(user, n, **own)
        assert all(everything[user][item] == score for item, score in answer)
        whole = recommender.recommend(user, ITEMS, **own)
        assert answer == whole[:n]


def test_a_batch_too_large_for_its_tables_is_answered_in_pieces(
    recommender: Recommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [recommender.serving.encode_request(f"u{n % 13}", 5) for n in range(30)]
    whole = recommender.serving.recommend_batch(requests)
    monkeypatch.setattr("coldstream.scoring.scorer._MOST_SUMS", 4 * ITEMS)
    assert recommender.serving.recommend_batch(requests) == whole
    assert _MOST_SUMS > 4 * ITEMS


def test_ranks_agree_with_the_list(recommender: Recommender) -> None:
    closest = recommender.hyperparameters.rank == "closest-to-1"
    listed = recommender.recommend("u4", ITEMS)
    keys = np.array([-abs(score - 1.0) if closest else score for _, score in listed])
    for place in (0, 1, 7, BLOCK - 1, BLOCK, ITEMS - 1):
        rank = recommender.rank("u4", listed[place].item)
        better, equal = int((keys > keys[place]).sum()), int((keys == keys[place]).sum()) - 1
        assert rank == (better + equal / 2, ITEMS)


def test_what_the_user_had_is_excluded_and_itself_never() -> None:
    recommender = shop("across", SEEN_OUT)
    everything = recommender.recommend("u3", ITEMS, exclude_seen=False)
    allowed = recommender.recommend("u3", ITEMS)
    assert 0 < len(everything) - len(allowed) < 60
    assert [r for r in everything if r in allowed] == allowed
    seen = [r.item for r in everything if r not in allowed]
    assert recommender.rank("u3", seen[0]).candidates == len(allowed) + 1
    assert recommender.rank("u3", allowed[0].item) == (0, len(allowed))


def test_ties_go_to_the_earlier_registration_however_many_are_asked_for() -> None:
    """Items without ids that share everything tie: the top 2 are the first 2 of the top 5, and of all."""
    recommender = Recommender(Schema(item=[Category("brand")]), seed=1, trends=(), neighbours=0)
    names = [f"i{n * 7919 % ITEMS}" for n in range(ITEMS)]
    for n, item in enumerate(names):
        recommender.put_item(item, {"brand": f"b{n % 2}"})
    recommender.remove_item(names[0])
    recommender.put_item(names[0], {"brand": "b0"})
    recommender.learn(Event("u", names[1]))
    registered = [*names[1:], names[0]]
    everything = recommender.recommend("v", ITEMS)
    assert len({score for _, score in everything}) == 2
    for score in {score for _, score in everything}:
        tied = [r.item for r in everything if r.score == score]
        assert tied == sorted(tied, key=registered.index)
    for n in (1, 2, 5, 100):
        assert recommender.recommend("v", n) == everything[:n]


def test_removed_items_are_gone_and_the_rest_are_as_before_whatever_the_order() -> None:
    """Removing moves others, and the scan sorts itself when it has become disorderly: scores must not notice."""
    recommender, rng = shop("across"), np.random.default_rng(5)
    gone = set(rng.choice(ITEMS, 700, replace=False).tolist())
    for n in gone:
        recommender.remove_item(f"i{n}")
        assert recommender.engine.shared.catalogue._order.out_of_order <= 64 + ITEMS // 8 + 1
    after = dict(recommender.recommend("u3", ITEMS))
    assert set(after) == {f"i{n}" for n in range(ITEMS) if n not in gone}
    # What came together with removed items counts no longer, so scores may differ where that was a feature.
    strangers = dict(recommender.recommend(None, ITEMS))
    assert set(strangers) == set(after)
    order = recommender.engine.shared.catalogue.items
    live = order.rows.slot[: order.size]
    assert (order.position[live] == np.arange(order.size)).all()
    for item in ("i0", "i1", "i2"):
        if item in after:
            assert recommender.predict("u3", item) == after[item]
    for n in list(gone)[:300]:
        recommender.put_item(f"i{n}", {"brand": "new"})
    assert len(recommender.recommend("u3", ITEMS)) == ITEMS - 400


def test_learning_costs_the_same_rows_however_many_share_a_feature() -> None:
    """Nothing is kept in step with Θ: an event touches its own rows and those of its negatives, and no other."""
    recommender = shop("across")
    rows = recommender.engine.shared.machine.parameters.rows
    before = rows.V.copy()
    recommender.learn(Event("u1", "i5", 1e6, {"device": "phone"}))
    moved = np.flatnonzero((before != rows.V).any(axis=1))
    assert (rows.touched_at[moved] == recommender.position).all()
    assert len(moved) < 400


@pytest.mark.parametrize("wanted", ["x", [], ["x", "y"]])
@pytest.mark.parametrize("name", ["nosuch", "id", "trend_100"])
def test_a_filter_by_what_is_no_attribute_is_refused_whatever_is_wanted(name: str, wanted: object) -> None:
    recommender = Recommender(SCHEMA, seed=1)
    recommender.put_item("i", {"brand": "b"})
    with pytest.raises(InvalidInput, match=f"where: unknown field '{name}' = .*; the schema declares brand, genre, price"):
        recommender.recommend("u", where={name: wanted})
    assert recommender.recommend("u", where={"brand": []}) == []


@pytest.mark.parametrize("pairs", ["across", "j>i"])
def test_a_catalogue_of_nothing_has_nothing_to_recommend(pairs: str) -> None:
    """Also where a number has been declared and no item has had one: there is no column to read then."""
    recommender = Recommender(SCHEMA, "paper", pairs=pairs)
    assert recommender.recommend("u") == []
    recommender.put_item("i", {"brand": "b"})
    assert [r.item for r in recommender.recommend(None)] == ["i"]
