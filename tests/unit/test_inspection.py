"""Looking at what was learned."""

import numpy as np
import pytest

from coldstream import Categories, Event, Id, InvalidInput, Recommender, Schema, UnknownId
from coldstream.inspection import named


def learned(**hyperparameters: object) -> Recommender:
    recommender = Recommender(Schema(item=[Id(), Categories("genre")]), factors=4, negatives=3, **hyperparameters)
    for n in range(8):
        recommender.put_item(f"i{n}", {"genre": ["jazz", f"g{n % 3}"]})
    for t in range(60):
        recommender.learn(Event(f"u{t % 5}", f"i{t * t % 8}", 60.0 * t))
    return recommender


def test_features_are_found_by_a_part_of_their_name() -> None:
    recommender = learned()
    found = recommender.inspection.features("GENRE=g", 2)
    assert found.total == 3
    assert len(found.names) == 2
    assert found.next is not None
    assert recommender.inspection.features("genre=g", 2, found.next).names == sorted(
        set(recommender.inspection.features("genre=g", 9).names) - set(found.names)
    )
    assert recommender.inspection.features("genre=g", 9).next is None
    assert recommender.inspection.features("", 10_000).total == recommender.size.features
    assert recommender.inspection.features("no such thing", 5) == ([], 0, None)


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_pages_end_and_hold_everything_once_with_the_text_itself_first(limit: int) -> None:
    recommender = learned()
    for n in range(12):
        recommender.put_user(f"b{n}")
    for look, text, others in (
        (recommender.inspection.users, "b1", {"b10", "b11"}),
        (recommender.inspection.features, "user.id=b1", {"user.id=b10", "user.id=b11"}),
    ):
        names, after = list[str](), 0
        for _ in range(20):
            found = look(text, limit, after)
            assert len(found.names) == limit or found.next is None
            names += found.names
            if found.next is None:
                break
            after = found.next
        else:
            pytest.fail("the pages do not end")
        assert set(names) == others | {text}
        assert len(names) == 3
        assert look(text, limit).total == 3
        assert limit == 1 or names[0] == text


def test_what_has_no_vector_is_near_nothing() -> None:
    with pytest.raises(InvalidInput, match=r"'item\.trend_100' has no vector, because it is linear"):
        learned().inspection.nearest("item.trend_100", 5)


def test_the_nearest_have_the_largest_cosine() -> None:
    recommender = learned()
    vocabulary, V = recommender._shared.encoder.vocabulary, recommender._shared.machine.parameters.theta.V
    vectors = {}
    for column in range(len(vocabulary)):
        if (owner := vocabulary.owner_or_none(column)) is not None:
            vectors[named(*owner)] = V[column].astype(float)
    own = vectors.pop("item.genre=jazz")
    cosines = {
        name: float(v @ own / (np.linalg.norm(v) * np.linalg.norm(own))) if v.any() else -1.0 for name, v in vectors.items()
    }
    near = recommender.inspection.nearest("item.genre=jazz", 5)
    assert [one.similarity for one in near] == pytest.approx(sorted(cosines.values(), reverse=True)[:5], abs=1e-5)
    assert all(one.similarity == pytest.approx(cosines[one.feature], abs=1e-5) for one in near)


def test_an_unknown_feature_is_said_to_be_unknown() -> None:
    with pytest.raises(UnknownId, match=r"'item\.genre=nope' is not known"):
        learned().inspection.nearest("item.genre=nope", 5)


def test_what_has_changed_most_comes_first_and_newcomers_are_not_compared() -> None:
    recommender = learned()
    before = recommender.inspection.changes()
    assert recommender.inspection.changed(before, 5) == []
    recommender.learn(Event("u1", "i1", 0.0))
    recommender.learn(Event("newcomer", "i2", 0.0))
    changed = recommender.inspection.changed(before, 1000)
    assert [one.change for one in changed] == sorted((one.change for one in changed), reverse=True)
    names = [one.feature for one in changed]
    assert "user.id=u1" in names
    assert "user.id=newcomer" not in names
    assert "user.id=u3" not in names


def test_a_column_with_another_owner_is_not_compared() -> None:
    recommender = learned()
    before = recommender.inspection.changes()
    recommender.forget_user("u1")
    recommender.put_user("other")
    assert "user.id=other" not in [one.feature for one in recommender.inspection.changed(before, 1000)]


def test_penalties_are_told_per_field_where_they_are_kept_per_field() -> None:
    adaptive = learned().inspection.penalties()
    assert set(adaptive) == set(learned()._shared.encoder.vocabulary.fields)
    assert all(value > 0 for value in adaptive.values())
    assert learned(regularization="fixed").inspection.penalties() == {}
    assert set(Recommender(Schema(), factors=0, negatives=3).inspection.penalties()) >= {"user.id", "item.id"}
