"""Looking at what was learned."""

from collections.abc import Callable

import numpy as np
import pytest

from coldstream import Categories, Event, Id, InvalidInput, Recommender, Schema, UnknownId
from coldstream.lists.inspection import named


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
    vocabulary, V = recommender.engine.shared.encoder.vocabulary, recommender.engine.shared.machine.parameters.theta.V
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
    recommender.learn(Event("u1", "another", 0.0))
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
    assert set(adaptive) == set(learned().engine.shared.encoder.vocabulary.fields)
    assert all(value > 0 for value in adaptive.values())
    assert learned(regularization="fixed").inspection.penalties() == {}
    assert set(Recommender(Schema(), factors=0, negatives=3).inspection.penalties()) >= {"user.id", "item.id"}


def pages(recommender: Recommender, between: Callable[[int], None], search: str = "", limit: int = 3) -> list[str]:
    """The names on all pages, with something done before every page but the first."""
    names, cursor = list[str](), None
    for number in range(50):
        if cursor is not None:
            between(number)
        place = 0 if cursor is None else recommender.inspection.user_place(cursor)
        found = recommender.inspection.users(search, limit, place)
        names += found.names
        if found.next is None:
            return names
        cursor = recommender.inspection.user_cursor(found.next)
    pytest.fail("the pages do not end")


@pytest.mark.parametrize("gone", [["u0"], ["u2"], ["u1", "u2"], ["u0", "u2", "u3"], ["u9"], []])
@pytest.mark.parametrize("reloaded", [False, True])
def test_nobody_is_passed_over_when_users_go_between_two_pages(gone: list[str], reloaded: bool) -> None:
    holder = [Recommender(Schema())]
    holder[0].put_users((f"u{n}", None) for n in range(12))

    def leave(number: int) -> None:
        if number == 1:
            for user in gone:
                holder[0].forget_user(user)
        if reloaded and number == 2:
            holder[0] = Recommender.from_state(*holder[0].state())

    names, cursor = list[str](), None
    for number in range(20):
        if number:
            leave(number)
        inspection = holder[0].inspection
        found = inspection.users("", 3, 0 if cursor is None else inspection.user_place(cursor))
        names += found.names
        if found.next is None:
            break
        cursor = holder[0].inspection.user_cursor(found.next)
    stayed = {f"u{n}" for n in range(12)} - set(gone)
    assert stayed <= set(names)
    if "u2" not in gone:  # the last on the first page is still there, so nobody comes twice
        assert len(names) == len(set(names))


def test_users_that_are_searched_for_are_not_passed_over_either() -> None:
    recommender = Recommender(Schema())
    recommender.put_users((f"{'ab'[n % 2]}{n}", None) for n in range(20))
    names = pages(recommender, lambda number: recommender.forget_user(f"a{2 * number - 2}"), search="b", limit=2)
    assert names == [f"b{n}" for n in range(1, 20, 2)]


def test_whoever_comes_again_is_behind_all_others() -> None:
    recommender = Recommender(Schema())
    recommender.put_users((f"u{n}", None) for n in range(6))

    def come_again(number: int) -> None:
        if number == 1:
            recommender.forget_user("u2")
            recommender.put_user("u2")

    names = pages(recommender, come_again)
    assert set(names) == {f"u{n}" for n in range(6)}


@pytest.mark.parametrize("cursor", ["", "3", "1.2.x.u", "1.2.-3.u", "²....", "1" * 30 + ".0.0.u"])
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor must be one that a page gave"):
        learned().inspection.user_place(cursor)
