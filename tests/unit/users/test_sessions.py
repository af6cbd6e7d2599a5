"""A session that is folded into a user who logs in: what it did is the user's, and the session is gone."""

from collections.abc import Callable

import numpy as np
import pytest

from coldstream import Bounds, Category, Event, Id, InvalidInput, Recommender, Schema, UnknownId

SCHEMA = Schema(user=[Id(), Category("country")], item=[Id(), Category("brand")])


def made(**options: object) -> Recommender:
    recommender = Recommender(SCHEMA, factors=4, negatives=3, **options)
    recommender.put_items((f"i{n}", {"brand": f"b{n % 3}"}) for n in range(20))
    for n in range(40):
        recommender.learn(Event(f"u{n % 4}", f"i{n * 3 % 20}", float(n)))
    return recommender


def test_what_a_session_did_is_the_users() -> None:
    recommender = made()
    recommender.put_user("ann", {"country": "NL"})
    for user, item in (("ann", "i1"), ("visit", "i2"), ("visit", "i1"), ("ann", "i3")):
        recommender.learn(Event(user, item, 99.0))
    recommender.merge_user("visit", "ann")
    assert not recommender.has_user("visit")
    assert recommender.engine.sessions("ann") == ("visit",)
    assert recommender.user("ann") == {"country": "NL"}
    assert not {"i1", "i2", "i3"} & {one.item for one in recommender.recommend("ann", 20)}
    state = recommender.engine.users["ann"]
    ids = recommender.engine.shared.catalogue.ids
    assert [ids[slot] for slot in state.recent.items][-2:] == ["i2", "i1"]
    had = {ids[slot]: often for slot, often in zip(state.seen.slots().tolist(), state.seen.times().tolist(), strict=True)}
    assert had == {"i3": 1, "i2": 1, "i1": 2}


def test_a_user_who_was_never_there_takes_over_everything() -> None:
    one, other = made(), made()
    one.put_user("visit", {"country": "NL"})
    other.put_user("ann", {"country": "NL"})
    for item in ("i4", "i5", "i4"):
        one.observe(Event("visit", item, 50.0))
        other.observe(Event("ann", item, 50.0))
    one.merge_user("visit", "ann")
    assert one.user("ann") == {"country": "NL"}
    ours, theirs = one.engine.users["ann"], other.engine.users["ann"]
    assert ours.recent == theirs.recent
    assert ours.seen.slots().tolist() == theirs.seen.slots().tolist()
    assert ours.seen.times().tolist() == theirs.seen.times().tolist()
    assert one.engine.users.seen == other.engine.users.seen
    assert one.engine.users.weight == other.engine.users.weight


def test_nothing_that_was_learned_of_the_sessions_id_is_left() -> None:
    recommender = made()
    features = recommender.size.features
    recommender.learn(Event("visit", "i2"))
    assert recommender.size.features == features + 1
    recommender.merge_user("visit", "u1")
    assert recommender.size.features == features


def test_merged_users_survive_a_snapshot_and_may_be_merged_again() -> None:
    recommender = made()
    for session in ("s1", "s2", "s3"):
        recommender.learn(Event(session, "i7"))
    recommender.merge_user("s1", "s2")
    recommender.merge_user("s2", "ann")
    recommender.merge_user("s3", "ann")
    again = Recommender.from_state(*recommender.state())
    assert again.engine.sessions("ann") == ("s1", "s2", "s3") == recommender.engine.sessions("ann")
    ours, theirs = recommender.state()[1], again.state()[1]
    assert all(np.array_equal(ours[name], theirs[name], True) for name in ours)
    again.engine.forget_session("s2")
    assert (again.engine.has_session("s2"), again.engine.sessions("ann")) == (False, ("s1", "s3"))
    again.forget_user("ann")
    assert not again.engine.has_session("s1")
    assert "users.sessions" not in again.state()[1]


def test_what_is_remembered_stays_within_bounds() -> None:
    recommender = made(bounds=Bounds(seen=3, users=50))
    for n in range(3):
        recommender.learn(Event("visit", f"i{n}"))
        recommender.learn(Event("ann", f"i{n + 5}"))
    recommender.merge_user("visit", "ann")
    assert len(recommender.engine.users["ann"].seen) == 3
    assert "visit" not in recommender.engine.users.use


def test_who_is_not_known_or_is_the_same_cannot_be_merged(unchanged: Callable[..., str]) -> None:
    recommender = made()
    assert "there is nothing to merge" in unchanged(recommender, UnknownId, lambda: recommender.merge_user("nobody", "u1"))
    assert "must be another" in unchanged(recommender, InvalidInput, lambda: recommender.merge_user("u1", "u1"))
    with pytest.raises(InvalidInput, match="user id must not be empty"):
        recommender.engine.check_merge("u1", "")
