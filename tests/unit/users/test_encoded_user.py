"""What a user brings is kept encoded for as long as it would be made the same again, and no longer."""

import math

import pytest

from coldstream import Diverged, Event, Id, LastItem, Recommendation, Recommender, Schema


def small(schema: Schema) -> Recommender:
    recommender = Recommender(schema, seed=3, history=0, trends=(), neighbours=0, factors=4, negatives=2)
    for n in range(6):
        recommender.put_item(f"i{n}")
    return recommender


def answer_encoded_anew(recommender: Recommender, user: str) -> list[Recommendation]:
    recommender.engine.users[user].encoded = None
    return recommender.recommend(user)


def test_it_does_not_outlive_the_columns_it_is_made_of() -> None:
    recommender = small(Schema())
    for _ in range(3):
        recommender.learn(Event("u", "i1"))
    recommender.recommend("u")
    shared = recommender.engine.shared
    released = shared.encoder.vocabulary.release(shared.encoder.id_field("user"), "u")
    shared.machine.parameters.release([released])
    for _ in range(3):
        recommender.learn(Event("v", "i3"))  # takes the column
    assert shared.encoder.vocabulary.owner(released) == ("user.id", "v")
    kept = recommender.recommend("u")
    assert kept == answer_encoded_anew(recommender, "u")


def test_what_becomes_known_later_is_part_of_it() -> None:
    recommender = small(Schema(context=[LastItem()]))
    recommender.learn(Event("u", "i1"))
    before = recommender.recommend("u")  # nobody has chosen anything after i1 yet
    for item in ("i1", "i2"):
        recommender.learn(Event("v", item))
    kept = recommender.recommend("u")
    assert kept != before
    assert kept == answer_encoded_anew(recommender, "u")


def test_an_update_that_diverges_leaves_none_behind() -> None:
    """Else it could be of features that were taken back, whose columns others get."""
    recommender = small(Schema(context=[LastItem()]))
    recommender.learn(Event("u", "i1"))
    theta = recommender.engine.shared.machine.parameters.theta
    sane, theta.w0[0] = float(theta.w0[0]), math.inf
    with pytest.raises(Diverged):
        recommender.learn(Event("u", "i2"))
    theta.w0[0] = sane
    for n in range(4):
        recommender.learn(Event(f"v{n}", "i3"))
    kept = recommender.recommend("u")
    assert kept == answer_encoded_anew(recommender, "u")


def test_it_does_not_outlive_the_fields_of_the_history() -> None:
    recommender = small(Schema(user=[Id()], context=[LastItem()]))
    for item in ("i1", "i2", "i1"):
        for user in ("u", "v"):
            recommender.learn(Event(user, item))
    recommender.recommend("u")
    recommender.add_context(LastItem("previous"))
    for n in range(5):
        recommender.learn(Event("v", f"i{n % 3}"))
    kept = recommender.recommend("u")
    assert kept == answer_encoded_anew(recommender, "u")


def test_it_is_kept_while_others_learn() -> None:
    recommender = small(Schema())
    for user in ("u", "v"):
        recommender.learn(Event(user, "i1"))
    recommender.recommend("u")
    encoded = recommender.engine.users["u"].encoded
    assert encoded is not None
    recommender.learn(Event("w", "i2"))
    recommender.recommend("u")
    assert recommender.engine.users["u"].encoded is encoded
    recommender.learn(Event("u", "i2"))
    recommender.recommend("u")
    assert recommender.engine.users["u"].encoded is not encoded
