"""Kinds of feedback: what they weigh, what they count for, and that everything without them stays as it was."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coldstream import Category, Event, Feedback, Id, InvalidInput, InvalidSchema, Recommender, Schema

SHOP = (Feedback("view", 0.2), Feedback("cart", 0.5), Feedback("purchase", 1), Feedback("dislike", -1))


def shop(feedback: tuple[Feedback, ...] = SHOP, **hyperparameters: object) -> Recommender:
    schema = Schema(item=[Id(), Category("brand")], feedback=feedback)
    recommender = Recommender(schema, factors=4, negatives=5, seed=3, **hyperparameters)
    recommender.put_items((f"i{n}", {"brand": f"b{n % 3}"}) for n in range(12))
    return recommender


def events(*kinds: str | None) -> list[Event]:
    return [Event(f"u{n % 5}", f"i{n * 7 % 12}", float(60 * n), kind=kinds[n % len(kinds)]) for n in range(60)]


def states_equal(one: Recommender, other: Recommender) -> bool:
    (_, ours), (_, theirs) = one.state(), other.state()
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name], True) for name in ours)


# What a schema declares


def test_the_defaults_are_what_a_shop_expects() -> None:
    kinds = {kind.name: (kind.had, kind.trends, kind.history) for kind in SHOP}
    assert kinds == {
        "view": (False, False, True),
        "cart": (False, True, True),
        "purchase": (True, True, True),
        "dislike": (True, False, False),
    }
    assert Feedback("seen", 0) == Feedback("seen", 0.0, had=False, trends=False, history=False)
    assert [kind.name for kind in SHOP if kind.is_target] == ["purchase"]


def test_a_schema_declares_kinds_in_a_table(tmp_path: Path) -> None:
    schema = Schema(feedback=[*SHOP, Feedback("played", 0.3, had=True)])
    path = tmp_path / "schema.toml"
    path.write_text(schema.toml())
    assert Schema.from_toml(path) == schema == Schema.from_document(schema.document())
    assert schema.document()["feedback"]["view"] == 0.2
    assert schema.document()["feedback"]["played"] == {"weight": 0.3, "had": True}


def test_without_kinds_a_schema_is_written_as_before() -> None:
    assert "feedback" not in Schema().document()
    assert "feedback" not in Schema().toml()


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"view": "much"}, "feedback 'view': weight must be a number from -100 to 100, got 'much'"),
        ({"view": True}, "weight must be a number"),
        ({"view": 101}, "weight must be a number from -100 to 100, got 101"),
        ({"view": float("nan")}, "weight must be a number"),
        ({"view": {"weight": 1, "seen": True}}, "feedback 'view': unknown option seen = True; known are weight, had"),
        ({"view": {"had": 1}}, "feedback 'view': had must be true or false, got 1"),
        ({"": 1}, "a kind's name must be a text of 1 to 64 characters"),
        ([1], "feedback must be a table of kinds"),
    ],
)
def test_what_no_kind_can_be_is_refused(table: object, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        Schema.from_document({"feedback": table})


def test_a_kind_is_declared_once() -> None:
    with pytest.raises(InvalidSchema, match="duplicate feedback 'view'"):
        Schema(feedback=[Feedback("view"), Feedback("view", 2)])


# What everything without kinds leads to


@pytest.mark.parametrize("how", ["one by one", "many", "trained"])
def test_declaring_kinds_changes_no_bit_of_what_plain_events_lead_to(how: str) -> None:
    plain, declared = shop(()), shop()
    for recommender in (plain, declared):
        if how == "trained":
            recommender.train(events(None))
        elif how == "many":
            recommender.learn(events(None))
        else:
            for event in events(None):
                recommender.learn(event)
    assert states_equal(plain, declared)


def test_a_kind_of_weight_one_is_a_plain_choice() -> None:
    plain, kinds = shop(), shop()
    plain.learn(events(None))
    kinds.learn(events("purchase"))
    assert states_equal(plain, kinds)


# What kinds lead to


def test_one_by_one_is_the_same_as_many_at_once_and_as_a_replay() -> None:
    given = events("view", "purchase", None, "dislike", "cart")
    one, many, again = shop(), shop(), shop()
    for event in given:
        one.learn(event)
    many.learn(given)
    again.engine.replay(list(enumerate(given, 1)))
    assert states_equal(one, many)
    assert states_equal(one, again)


def test_training_counts_and_remembers_what_learning_does() -> None:
    given = events("view", "dislike", "purchase", "cart")
    learned, trained = shop(), shop()
    learned.learn(given)
    trained.train(given, epochs=1)
    (_, ours), (_, theirs) = learned.state(), trained.state()
    for name in ours:
        if name.startswith(("catalogue.", "users.")):
            assert np.array_equal(ours[name], theirs[name], True), name


def test_an_observed_event_of_a_kind_counts_as_a_learned_one_does() -> None:
    learned, observed = shop(), shop()
    for event in events("view", "dislike"):
        learned.learn(event)
        observed.observe(event)
    (_, ours), (_, theirs) = learned.state(), observed.state()
    assert all(np.array_equal(ours[name], theirs[name], True) for name in ours if name.startswith(("catalogue.", "users.")))


def test_what_was_viewed_is_recommended_again_and_what_was_bought_or_disliked_is_not() -> None:
    recommender = shop()
    for kind, item in (("view", "i1"), ("purchase", "i2"), ("dislike", "i3"), ("cart", "i4")):
        recommender.learn(Event("ann", item, kind=kind))
    listed = {best.item for best in recommender.recommend("ann", 12)}
    assert {"i1", "i4"} <= listed
    assert not {"i2", "i3"} & listed


def ahead(recommender: Recommender) -> float:
    """How far an item is ahead of all others on average."""
    others = [recommender.predict("ann", f"i{n}") for n in range(12) if n != 1]
    return recommender.predict("ann", "i1") - sum(others) / len(others)


@pytest.mark.parametrize("loss", ["softmax", "bpr", "logistic"])
def test_a_dislike_lowers_its_item_and_a_weight_scales_the_step(loss: str) -> None:
    moved = {}
    for kind in ("view", "purchase", "dislike"):
        recommender = shop(loss=loss, optimizer="sgd", learning_rate=0.05, regularization="fixed", history=0, trends=(),
                           neighbours=0, linear_penalty=0.0, factor_penalty=0.0)  # fmt: skip
        recommender.put_user("ann")  # whose vector counts before the event, too
        before = ahead(recommender)
        recommender.learn(Event("ann", "i1", kind=kind))
        moved[kind] = ahead(recommender) - before
    assert moved["dislike"] < 0 < moved["view"] < moved["purchase"]
    assert moved["view"] == pytest.approx(0.2 * moved["purchase"], rel=0.1)


def test_a_dislike_makes_nothing_popular_and_is_no_history() -> None:
    recommender = shop()
    for _ in range(5):
        recommender.learn(Event("bob", "i5", kind="dislike"))
    document, arrays = recommender.state()
    assert arrays["catalogue.choices"].sum() == 0
    assert arrays["catalogue.unchosen"].all()
    assert arrays["catalogue.partners"].sum() == 0
    assert recommender.engine.has_past("bob")
    assert document["events"] == 5


def test_at_weight_zero_nothing_is_learned_and_the_rest_counts_as_declared() -> None:
    recommender = shop((Feedback("seen", 0, had=True, history=True),))
    before = {name: array.copy() for name, array in recommender.state()[1].items() if name.startswith("model.")}
    recommender.learn(Event("u", "i1", kind="seen"))
    after = recommender.state()[1]
    assert all(np.array_equal(after[name][: len(own)], own) for name, own in before.items() if name == "model.w")
    assert "i1" not in [best.item for best in recommender.recommend("u", 12)]


def test_a_snapshot_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    given = events("view", "purchase", "dislike")
    recommender = shop()
    recommender.learn(given[:30])
    recommender.save(tmp_path / "snapshot")
    again = Recommender.load(tmp_path / "snapshot")
    for one in (recommender, again):
        one.learn(given[30:])
    assert again.schema.feedback == SHOP
    assert states_equal(recommender, again)


def test_kinds_and_weights_may_be_declared_later() -> None:
    recommender = shop(())
    recommender.engine.extend(Schema(item=[Id(), Category("brand")], feedback=SHOP))
    recommender.learn(Event("ann", "i1", kind="view"))
    recommender.engine.extend(Schema(item=[Id(), Category("brand")], feedback=[Feedback("view", 0.5)]))
    assert recommender.schema.effect_of("view").weight == 0.5


# What is refused


@pytest.mark.parametrize("how", ["learn", "many", "observe", "train", "replay"])
def test_an_undeclared_kind_is_refused_with_nothing_changed(how: str, unchanged: Callable[..., str]) -> None:
    recommender, bad = shop(), Event("ann", "new item", 5.0, {"device": "tv"}, kind="click")
    good = Event("ann", "another item", kind="view")
    actions = {
        "learn": lambda: recommender.learn(bad),
        "many": lambda: recommender.learn([good, bad]),
        "observe": lambda: recommender.observe(bad),
        "train": lambda: recommender.train([good, bad]),
        "replay": lambda: recommender.engine.replay([(1, good), (2, bad)]),
    }
    said = unchanged(recommender, InvalidInput, actions[how])
    assert said.startswith("kind must be one that the schema declares (view, cart, purchase, dislike), got 'click'")


def test_where_no_kind_is_declared_the_remedy_is_to_declare_it() -> None:
    with pytest.raises(InvalidInput, match=r"got 'view'; declare it in the schema's table \[feedback\]"):
        shop(()).learn(Event("ann", "i1", kind="view"))


def test_a_kind_is_a_text() -> None:
    for kind in (3, "", True):
        with pytest.raises(InvalidInput, match="kind must be a text"):
            Event("ann", "i1", kind=kind)


# What was shown above a choice and not taken


def passing(kind: str | None = None, passed_over: tuple[str, ...] = ("i1", "i2")) -> list[Event]:
    return [Event(f"u{n % 5}", f"i{3 + n % 9}", float(n), kind=kind, passed_over=passed_over) for n in range(60)]


def test_what_was_passed_over_is_nothing_unless_it_is_asked_for() -> None:
    plain, told = shop(), shop()
    plain.learn(passing(passed_over=()))
    told.learn(passing())
    assert states_equal(plain, told)


def test_what_was_passed_over_is_pushed_down_and_the_last_of_it_first() -> None:
    def behind(recommender: Recommender, item: str) -> float:
        scores = {best.item: best.score for best in recommender.recommend("u9", 12)}
        return float(np.mean(list(scores.values()))) - scores[item]

    plain, told = shop(), shop(passed_over=1)
    for recommender in (plain, told):
        recommender.learn(passing())
    assert behind(told, "i2") > behind(plain, "i2") + 0.1
    assert abs(behind(told, "i1") - behind(plain, "i1")) < abs(behind(told, "i2") - behind(plain, "i2")) / 2


def test_passed_over_one_by_one_is_the_same_as_many_at_once_and_as_a_replay() -> None:
    given = passing("view") + passing("dislike") + passing(None, ("i1", "gone", "i11", "i5"))
    one, many, again = (shop(passed_over=3) for _ in range(3))
    for event in given:
        one.learn(event)
    many.learn(given)
    again.engine.replay(list(enumerate(given, 1)))
    assert states_equal(one, many)
    assert states_equal(one, again)


def test_an_event_that_speaks_against_its_item_speaks_for_nothing_else() -> None:
    told, plain = shop(passed_over=3), shop(passed_over=3)
    told.learn(passing("dislike"))
    plain.learn(passing("dislike", ()))
    assert states_equal(told, plain)


@pytest.mark.parametrize("value", ["i1", 5, ["i1", 7], ["x"] * 101, [""]])
def test_what_cannot_have_been_passed_over_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="passed_over"):
        Event("ann", "i1", passed_over=value)
