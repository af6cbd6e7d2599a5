"""What a recommender does, as its users see it."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from coldstream import (
    Again,
    Categories,
    Category,
    Event,
    Follows,
    Hyperparameters,
    Id,
    LastAttribute,
    LastItem,
    LastItems,
    LastTimePart,
    Number,
    Recommender,
    Schema,
    Together,
    Trend,
)
from conftest import bits
from filled import PRESETS, SCHEMA, filled, stream


def test_reading_never_writes() -> None:
    recommender = filled()
    before = bits(recommender)
    fields = {"device": "a new device", "weather": "sunny"}
    recommender.recommend(
        "u1", 5, context=fields, time=9.0, where={"genre": "a"}, deny=["i3"], allow=["i1", "i2", "nothing"]
    )
    recommender.recommend("a new user", attributes={"job": "a new job", "age": 3})
    recommender.recommend(None)
    recommender.rank("u2", "i4", context=fields)
    recommender.predict("nobody", "i1")
    recommender.explain("u1", "i1", context=fields)
    recommender.items(), recommender.users(), recommender.item("i1"), recommender.user("u1"), recommender.state()
    assert bits(recommender) == before


@pytest.mark.parametrize("pairs", ["across", "j>i", "j>=i"])
@pytest.mark.parametrize("preset", PRESETS)
def test_an_explanation_adds_up_to_the_score(preset: str, pairs: str) -> None:
    recommender = filled(preset, pairs=pairs)
    for user in ("u1", "u5", "nobody"):
        for item, score in recommender.recommend(user, context={"device": "tv"}, time=7200.0):
            explanation = recommender.explain(user, item, context={"device": "tv"}, time=7200.0)
            assert explanation.score == score == recommender.predict(user, item, context={"device": "tv"}, time=7200.0)
            assert explanation.score == pytest.approx(math.fsum(t.value for t in explanation.terms), rel=1e-5, abs=1e-6)
            assert {len(term.features) for term in explanation.terms} <= {0, 1, 2}
            assert len(set(explanation.terms)) == len(explanation.terms)
    names = {name for term in recommender.explain("u1", "i1", time=0.0).terms for name in term.features}
    assert {"user.id=u1", "item.id=i1", "user.age", "item.genre=b", "context.hour=0"} <= names


@pytest.mark.parametrize(
    ("pairs", "within", "itself"), [("across", False, False), ("j>i", True, False), ("j>=i", True, True)]
)
def test_an_explanation_has_the_pairs_that_interact(pairs: str, within: bool, itself: bool) -> None:
    explanation = filled(pairs=pairs).explain("u1", "i1", context={"device": "tv"}, time=7200.0)
    found = [term.features for term in explanation.terms if len(term.features) == 2]
    linear = [name for term in explanation.terms if len(term.features) == 1 for name in term.features]
    of_items = {name for name in linear if name.startswith("item.")}
    assert any((one in of_items) != (other in of_items) for one, other in found)
    assert any(one != other and (one in of_items) == (other in of_items) for one, other in found) == within
    assert any(one == other for one, other in found) == itself
    assert len({frozenset(pair) for pair in found}) == len(found)


@pytest.mark.parametrize("item_id", [True, False])
@pytest.mark.parametrize("pairs", ["across", "j>i", "j>=i"])
def test_an_explanation_adds_up_where_everything_counts(pairs: str, item_id: bool) -> None:
    """Trends that interact, cross features, numbers that some items lack, items that went and came back."""
    counted = [Trend("hot", 5, linear=False), Trend("warm", 30, linear=False), Trend("long", 90)]
    crossed = [Follows(), Together(length=3), Again()]
    attributes = [Category("shop"), Categories("genre", normalize=True), Number("price"), Number("size")]
    schema = Schema(item=[Id()] * item_id + attributes + counted + crossed, exclude_seen=False)
    recommender = Recommender(schema, seed=3, factors=5, negatives=4, pairs=pairs)
    for n in range(700):  # more than one block of the scan
        genre = ["abc"[n % 3], "de"[n % 2]][: n % 3]
        recommender.put_item(f"i{n}", {"shop": n % 7, "genre": genre} | ({"price": n / 100} if n % 2 else {}))
    rng = np.random.default_rng(1)
    for n in range(150):
        recommender.learn(Event(f"u{rng.integers(4)}", f"i{rng.integers(12) * 50}"))
        if n % 30 == 29:
            recommender.remove_item(f"i{n // 30 * 100}")
            recommender.put_item(f"i{n // 30 * 100}", {"shop": 3})
    for user in ("u0", "u3", "nobody"):
        listed = dict(recommender.recommend(user, 700))
        assert len(listed) == 700
        for item in ("i0", "i50", "i100", "i400", "i550", "i1", "i699"):
            explanation = recommender.explain(user, item)
            assert explanation.score == listed[item] == recommender.predict(user, item)
            terms = [term.value for term in explanation.terms]
            assert explanation.score == pytest.approx(math.fsum(terms), rel=1e-5, abs=1e-6 * max(map(abs, terms)))


def test_a_known_user_outranks_with_what_was_learned() -> None:
    """Two kinds of users, two kinds of items: after a short stream each gets its own, but for bad luck with the draws."""
    right = 0
    for seed in range(10):
        recommender = Recommender(Schema(exclude_seen=False), seed=seed, factors=8)
        for n in range(200):
            kind = n % 2
            recommender.learn(Event(f"{'ab'[kind]}{n % 7}", f"{'xy'[kind]}{n % 5}"))
        for kind in (0, 1):
            best = recommender.recommend(f"{'ab'[kind]}{2 + kind}", 5)
            assert all(r.item.startswith("xy"[kind]) for r in best[:3])
            right += sum(r.item.startswith("xy"[kind]) for r in best)
    assert right >= 98  # of a hundred places


def test_cold_start_uses_attributes() -> None:
    recommender = Recommender(Schema(user=[Id(), Category("job")], exclude_seen=False), seed=1, factors=8, history=0)
    for n in range(300):
        job = n % 2
        recommender.put_user(f"u{n}", {"job": ["cook", "pilot"][job]})
        recommender.learn(Event(f"u{n}", f"{['pan', 'plane'][job]}{n % 3}"))
    assert recommender.recommend("new", 1, attributes={"job": "cook"})[0].item.startswith("pan")
    assert recommender.recommend("new", 1, attributes={"job": "pilot"})[0].item.startswith("plane")
    assert recommender.recommend(None, 1, attributes={"job": "pilot"})[0].item.startswith("plane")
    assert len(recommender.recommend("new", 3)) == 3
    # For a known user they take precedence in the call and change nothing.
    assert recommender.recommend("u0", 1, attributes={"job": "pilot"})[0] != recommender.recommend("u0", 1)[0]
    assert recommender.user("u0") == {"job": "cook"}


def test_an_empty_catalogue_recommends_nothing() -> None:
    assert Recommender(Schema()).recommend("anyone") == []


def test_items_can_be_put_again_with_other_attributes() -> None:
    recommender = filled()
    before = {r.item: r.score for r in recommender.recommend("u5", 12, exclude_seen=False)}
    recommender.put_item("i3", {"genre": ["a", "e"], "price": 900.0})
    after = {r.item: r.score for r in recommender.recommend("u5", 12, exclude_seen=False)}
    assert {item for item in before if before[item] != after[item]} == {"i3"}
    assert recommender.item("i3")["price"] == 900.0
    assert recommender.items() == [f"i{n}" for n in range(12)]


def test_many_at_once_are_as_if_put_one_by_one() -> None:
    schema = Schema(
        user=[Id(), Category("job")],
        item=[Id(), Category("shop"), Categories("genre", normalize=True), Number("price"), Number("size", bins=(2, 4))],
        context=[LastItem(), LastAttribute("last_shop", of="shop")],
    )
    shops, genres = [1, True, "1", "true", "", 0, False], [["a", "b"], ["b", "a"], [1, "a"], [True, "a"], ["a"], [], ("b",)]
    items = [
        (
            f"i{n % 23}",
            {"shop": shops[n % 7], "genre": genres[n // 2 % 7], "price": [1, 1.0, -0.0, 0.1][n % 4], "size": n % 6},
        )
        for n in range(40)
    ]
    items += [("bare", None), ("empty", {}), ("i3", {"shop": "1"}), ("i3", None)]
    users = [(f"u{n % 5}", {"job": shops[n % 7]}) for n in range(12)]
    together, apart = Recommender(schema, seed=1, factors=3), Recommender(schema, seed=1, factors=3)
    for recommender in (together, apart):
        recommender.put_item("i5", {"shop": "before"})
        recommender.learn(Event("u1", "i5"))
    together.put_items(items)
    together.put_users(users)
    for item, attributes in items:
        apart.put_item(item, attributes)
    for user, attributes in users:
        apart.put_user(user, attributes)
    assert bits(together) == bits(apart)
    for recommender in (together, apart):
        recommender.learn(Event("u1", "i3"))
    assert together.recommend("u2", 30) == apart.recommend("u2", 30)


def test_what_is_returned_is_a_copy() -> None:
    recommender = filled()
    recommender.item("i1")["genre"].append("z")
    assert recommender.item("i1")["genre"] == ["b", "e"]
    given = {"genre": ["a"]}
    recommender.put_item("new", given)
    given["genre"].append("z")
    assert recommender.item("new") == {"genre": ["a"]}


def test_removed_items_are_gone_and_come_back_cold() -> None:
    recommender = filled()
    fresh = Recommender(SCHEMA, "default", 7, factors=6)
    fresh.put_item("i3")
    recommender.remove_item("i3")
    assert "i3" not in recommender.items()
    assert "i3" not in [r.item for r in recommender.recommend("u5", 99, exclude_seen=False)]
    recommender.put_item("i3")
    own = {name: own_vector(r, "item.id", "i3") for name, r in (("back", recommender), ("fresh", fresh))}
    np.testing.assert_array_equal(own["back"], own["fresh"])
    assert recommender.items()[-1] == "i3"


def test_who_had_an_item_still_had_it_when_it_comes_back() -> None:
    recommender = Recommender(Schema())
    recommender.learn(Event("u", "a"))
    recommender.put_item("b")
    recommender.remove_item("a")
    recommender.put_item("a")
    assert [r.item for r in recommender.recommend("u")] == ["b"]


def own_vector(recommender: Recommender, field: str, value: str) -> np.ndarray:
    vocabulary = recommender.engine.shared.encoder.vocabulary
    column = vocabulary.find(vocabulary.fields.index(field), value)
    theta = recommender.engine.shared.machine.parameters.theta
    return np.concatenate([[theta.w[column]], theta.V[column]])


def test_a_forgotten_user_is_a_stranger() -> None:
    recommender = filled()
    stranger = filled().recommend("stranger", 12)
    recommender.forget_user("u1")
    assert "u1" not in recommender.users()
    assert recommender.recommend("u1", 12) == recommender.recommend("stranger", 12) == stranger
    assert "u1" not in repr(recommender.state()[0])
    np.testing.assert_array_equal(recommender.engine.shared.machine.parameters.theta.V[released_column(recommender)], 0)


def released_column(recommender: Recommender) -> int:
    return recommender.engine.shared.encoder.vocabulary._gaps[0]


def test_seen_items_are_excluded_by_default_and_on_request() -> None:
    for default in (True, False):
        recommender = Recommender(Schema(exclude_seen=default))
        for item in "abc":
            recommender.put_item(item)
        recommender.learn(Event("u", "a"))
        assert ("a" not in items_for(recommender, "u")) == default
        assert "a" not in items_for(recommender, "u", exclude_seen=True)
        assert "a" in items_for(recommender, "u", exclude_seen=False)
        assert "a" in items_for(recommender, "v")


def items_for(recommender: Recommender, user: str | None, **options: object) -> set[str]:
    return {r.item for r in recommender.recommend(user, 100, **options)}


def test_filters() -> None:
    recommender = filled()
    everything = {f"i{n}" for n in range(12)}

    def left(**options: object) -> set[str]:
        return items_for(recommender, None, **options)

    assert left() == everything
    assert left(allow=["i1", "i2", "unknown"]) == {"i1", "i2"}
    assert left(allow=[]) == set()
    assert left(deny=["i1", "unknown"]) == everything - {"i1"}
    assert left(allow=["i1", "i2"], deny=["i2"]) == {"i1"}
    assert left(where={"genre": "a"}) == {"i0", "i3", "i6", "i9"}
    assert left(where={"genre": ["a", "b"]}) == {f"i{n}" for n in range(12) if n % 3 < 2}
    assert left(where={"genre": "unheard of"}) == set()
    assert left(where=lambda item: item["price"] < 3) == {"i0", "i1", "i2"}
    assert left(where=lambda item: "d" in item["genre"], deny=["i0"]) == {f"i{n}" for n in range(2, 12, 2)}
    recommender.put_item("i0", {"genre": ["z"]})
    assert left(where={"genre": "a"}) == {"i3", "i6", "i9"}
    recommender.remove_item("i3")
    assert left(where={"genre": "a"}) == {"i6", "i9"}


def test_a_new_context_field_is_admitted_in_mid_stream() -> None:
    recommender = filled()
    parameters = recommender.engine.shared.machine.parameters.columns
    before = recommender.recommend("u1", context={"weather": "sunny"})
    assert before == recommender.recommend("u1")  # nobody has heard of weather yet
    for n in range(200):
        weather = ["sunny", "rainy"][n % 2]
        recommender.learn(Event(f"u{n % 6}", ["i1", "i2"][n % 2], 1e6, {"weather": weather, "tags": ["x", "y"]}))
    assert [field.name for field in recommender.schema.context][-2:] == ["weather", "tags"]
    assert recommender.engine.shared.machine.parameters.columns >= parameters + 4
    both = ["i1", "i2"]  # others may never have been negatives: the users had them
    sunny, rainy = (recommender.recommend("u7", 1, context={"weather": w}, allow=both)[0].item for w in ("sunny", "rainy"))
    assert (sunny, rainy) == ("i1", "i2")
    recommender.add_context(Number("distance", scale=100))
    recommender.learn(Event("u1", "i5", 1e6, {"distance": 250}))
    assert any(
        "distance" in name for t in recommender.explain("u1", "i5", context={"distance": 9}).terms for name in t.features
    )


def test_history_is_strictly_before_the_event() -> None:
    schema = Schema(
        item=[Id(), Categories("genre")],
        context=[LastItem(), LastItems(length=2), LastAttribute("last_genre", of="genre"), LastTimePart("last_day")],
    )
    recommender = Recommender(schema, "paper", factors=2)
    recommender.put_item("a", {"genre": ["x", "y"]})
    recommender.put_item("b", {"genre": ["z"]})

    def history(user: str) -> dict[str, float]:
        x = recommender.serving.encode(user, None, None, None, None).x
        owners = [recommender.engine.shared.encoder.vocabulary.owner(column) for column in x.column]
        return {f"{field}={value}": float(weight) for (field, value), weight in zip(owners, x.value, strict=True)}

    recommender.learn(Event("u", "a", 0.0))
    recommender.learn(Event("u", "a", 0.0))  # only now is "the last item was a" a feature that an event had
    recommender.learn(Event("u", "b", 86400.0))
    recommender.learn(Event("u", "b", 86400.0))
    recommender.put_item("b", {"genre": ["changed"]})
    recommender.learn(Event("v", "a", 0.0))
    half = pytest.approx(1 / math.sqrt(2))
    assert history("u") == {
        "user.id=u": 1.0,
        "context.last_item=b": 1.0,
        "context.last_items=b": pytest.approx(math.sqrt(2)),  # twice in two: each weighs 1/√2
        "context.last_genre=z": 1.0,  # as it was when it was chosen
        "context.last_day=4": 1.0,
    }
    recommender.learn(Event("u", "a", 2 * 86400.0))
    assert history("u")["context.last_items=a"] == half
    assert history("u")["context.last_items=b"] == half
    assert {"context.last_genre=x", "context.last_genre=y"} <= set(history("u"))
    assert history("v")["context.last_day=3"] == 1.0


def test_initial_vectors_depend_on_nothing_but_seed_field_and_value() -> None:
    a, b = Recommender(SCHEMA, seed=3), Recommender(SCHEMA, seed=3)
    a.put_item("x", {"genre": ["g"]})
    a.put_user("u")
    for n in range(50):
        b.put_user(f"other {n}")
    b.put_user("u")
    b.put_item("y")
    b.put_item("x", {"genre": ["h", "g"]})
    for field, value in (("item.id", "x"), ("user.id", "u"), ("item.genre", "g")):
        np.testing.assert_array_equal(own_vector(a, field, value), own_vector(b, field, value))
    other = Recommender(SCHEMA, seed=4)
    other.put_user("u")
    assert (own_vector(a, "user.id", "u") != own_vector(other, "user.id", "u")).any()
    assert own_vector(a, "user.id", "u")[0] == 0


@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_seed_and_stream_give_the_same_bits(preset: str) -> None:
    assert bits(filled(preset)) == bits(filled(preset))
    assert bits(filled(preset)) != bits(filled(preset, seed=8))


def test_times_are_numbers_or_aware_datetimes() -> None:
    recommender = filled()
    moment = datetime(2026, 11, 15, 13, tzinfo=UTC)
    assert recommender.recommend("u1", time=moment) == recommender.recommend("u1", time=moment.timestamp())
    assert Event("u", "i", moment) == Event("u", "i", moment.timestamp())
    assert Event("u", "i", 3).time == 3.0
    assert Event("u", "i").time is None


def test_numpy_values_are_values() -> None:
    recommender = Recommender(SCHEMA)
    recommender.put_user("u", {"age": np.int64(30), "job": np.str_("cook")})
    recommender.put_item("i", {"genre": ("a", "b"), "price": np.float32(2)})
    assert recommender.user("u") == {"age": 30, "job": "cook"}
    assert recommender.item("i") == {"genre": ["a", "b"], "price": 2.0}
    recommender.put_item("j", {"genre": {"b", "a"}})
    assert recommender.item("j") == {"genre": ["a", "b"]}


def test_presets_and_hyperparameters() -> None:
    paper, default = Recommender(SCHEMA, "paper").hyperparameters, Recommender(SCHEMA).hyperparameters
    assert (paper.loss, paper.negatives, paper.optimizer, paper.regularization) == ("squared", 0, "sgd", "paper")
    assert (paper.pairs, default.pairs) == ("j>i", "across")
    assert paper.rank == "closest-to-1"
    assert (default.loss, default.optimizer, default.regularization) == ("softmax", "adagrad", "per-field")
    assert default.rank == "highest"
    assert default.negatives > 0
    assert default.history > 0
    changed = Recommender(SCHEMA, default, factors=3, negatives=2).hyperparameters
    assert changed == Hyperparameters.from_document(changed.document())
    assert (changed.factors, changed.negatives) == (3, 2)
    assert [f.name for f in Recommender(Schema()).schema.context] == ["last_item", "last_items"]
    assert Recommender(Schema(), "paper").schema == Schema()


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", "bpr"])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
@pytest.mark.parametrize("regularization", ["fixed", "paper", "per-field"])
def test_every_combination_learns_what_is_chosen(loss: str, optimizer: str, regularization: str) -> None:
    recommender = Recommender(
        Schema(exclude_seen=False),
        loss=loss,
        optimizer=optimizer,
        regularization=regularization,
        learning_rate=0.02,
        linear_penalty=0.001,
        factor_penalty=0.001,
        negatives=4,
        factors=4,
        trends=(),  # logarithms of counts reach 5 and more: too much for squares under plain descent
        neighbours=0,
    )
    for n in range(30):
        recommender.put_item(f"i{n}")
    for n in range(300):
        recommender.learn(Event(f"u{n % 10}", f"i{n % 3}"))
    assert items_of(recommender, "u4", 3) == {"i0", "i1", "i2"}


def items_of(recommender: Recommender, user: str, n: int) -> set[str]:
    return {r.item for r in recommender.recommend(user, n)}


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_positive_only_learns_without_negatives(loss: str) -> None:
    recommender = Recommender(Schema(), "paper", loss=loss, factors=4, learning_rate=0.01)
    for event in stream(50):
        recommender.learn(Event(event.user, event.item))
    assert recommender.events == 50
    assert recommender.engine.shared.machine.parameters.theta.w0[0] > 0


def test_a_user_who_had_everything_has_nothing_to_contrast() -> None:
    recommender = Recommender(Schema(), factors=3)
    for item in ("a", "b", "a", "b", "a"):
        recommender.learn(Event("u", item))
    assert recommender.events == 5
    assert recommender.recommend("u") == []


def test_every_history_of_items_has_its_own_length() -> None:
    """Also where another field asks for a longer past."""
    context = [LastItems("two", length=2), LastItems("four", length=4)]
    recommender = Recommender(Schema(item=[Id(), Together(length=6)], context=context), factors=2)
    for user, items in (("u0", 9), ("u1", 8)):  # an item has a column once an event came after it
        for n in range(items):
            recommender.learn(Event(user, f"i{n}"))
    x = recommender.serving.encode("u1", None, None, None, None).x
    owners = [recommender.engine.shared.encoder.vocabulary.owner(column) for column in x.column]
    shown = [(field, value, pytest.approx(weight)) for (field, value), weight in zip(owners, x.value, strict=True)]
    two, four = 1 / math.sqrt(2), 1 / math.sqrt(4)
    assert [own for own in shown if own[0] == "context.two"] == [("context.two", f"i{n}", two) for n in (6, 7)]
    assert [own for own in shown if own[0] == "context.four"] == [("context.four", f"i{n}", four) for n in (4, 5, 6, 7)]


def test_the_order_in_which_a_caller_names_fields_does_not_matter() -> None:
    """Sums are taken in the order of the schema, so that equal records lead to equal bits."""
    names = [f"c{n}" for n in range(7)]
    schema = Schema(user=[Id(), *map(Category, names)], item=[Id(), *map(Category, names)], context=[*map(Category, names)])
    straight, turned = (Recommender(schema, seed=1, factors=5, learning_rate=0.5) for _ in range(2))
    for recommender, order in ((straight, names), (turned, [*names[3:], *names[2::-1]])):
        given = [{name: f"{name}{n % 3}" for name in order} for n in range(12)]
        for n in range(12):
            recommender.put_item(f"i{n}", given[n])
            recommender.put_user(f"u{n}", given[n])
        for n in range(40):
            recommender.learn(Event(f"u{n % 12}", f"i{n * n % 12}", None, given[n % 12]))
        asked = [recommender.recommend("u1", context=own, attributes=given[5], exclude_seen=False) for own in given]
        recommender.answers = [repr(answer) for answer in asked]
    assert straight.answers == turned.answers
    np.testing.assert_array_equal(straight.state()[1]["model.V"], turned.state()[1]["model.V"])
    np.testing.assert_array_equal(straight.state()[1]["model.w"], turned.state()[1]["model.w"])


def test_an_item_with_other_attributes_has_nothing_left_of_those_before() -> None:
    """Beside one who was given the last attributes at once: the same scores, and the same of everything counted."""
    schema = Schema(item=[Id(), Category("brand"), Categories("genre"), Number("price")])
    put_again, put_once = (Recommender(schema, seed=1, factors=3) for _ in range(2))
    first = {"brand": "b", "genre": ["x", "y"], "price": 2.0}
    for recommender in (put_again, put_once):
        recommender.put_item("other", first)
        recommender.put_item("a", first if recommender is put_again else {})
        recommender.put_item("a", {"genre": ["x"]})
        recommender.learn(Event("u", "other"))
    assert put_again.recommend("v") == put_once.recommend("v")
    assert put_again.recommend("v", where={"brand": "b"}) == put_again.recommend("v", allow=["other"])
    for name in ("combination", "combination_length", "combination_column", "number"):
        ours, theirs = put_again.state()[1][f"catalogue.{name}"], put_once.state()[1][f"catalogue.{name}"]
        np.testing.assert_array_equal(ours, theirs)
    for recommender in (put_again, put_once):
        recommender.remove_item("other")
        recommender.remove_item("a")
    assert not put_again.state()[1]["catalogue.combination_length"].any()


def test_who_was_put_and_never_chose_has_no_past() -> None:
    recommender = Recommender(Schema(), factors=2)
    recommender.put_user("u")
    assert (recommender.has_user("u"), recommender.engine.has_past("u")) == (True, False)
    assert (recommender.has_user("stranger"), recommender.engine.has_past("stranger")) == (False, False)
    recommender.observe(Event("u", "i"))
    assert recommender.engine.has_past("u")
    recommender.forget_user("u")
    assert not recommender.engine.has_past("u")
