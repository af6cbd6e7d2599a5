"""The encoder: what it has taken up for good, and which part of a record an error is about."""

from collections.abc import Callable

import pytest

from coldstream import Categories, Category, Event, Id, InvalidInput, Number, Recommender, Schema
from coldstream.features.encoder import Encoder, ItemAttribute
from filled import filled


def test_the_fields_of_a_schema_are_not_taken_back_with_what_came_later() -> None:
    schema = Schema(user=[Id(), Category("job")], item=[Id()], context=[Category("device")])
    encoder = Encoder(schema)
    fields = list(encoder.vocabulary.fields)
    assert fields == ["user.id", "user.job", "item.id", "context.device"]
    encoder.take_schema(schema.with_context(Category("weather")))
    encoder.admit(encoder.describe_user("u", {"job": "cook"}))
    assert sorted(encoder.return_to(schema)) == [0, 1]
    assert encoder.vocabulary.fields == fields
    assert len(encoder.vocabulary) == 0
    assert encoder.schema is schema


@pytest.mark.parametrize(
    ("field", "action"),
    [
        ("context.pressure", lambda r: r.learn(Event("u1", "i1", None, {"pressure": 2.5}))),
        ("context.device", lambda r: r.learn(Event("u1", "i1", None, {"device": ["tv"]}))),
        ("context.hour", lambda r: r.recommend("u1", context={"hour": "3"})),
        ("attributes.age", lambda r: r.put_user("u1", {"age": "old"})),
        ("attributes.height", lambda r: r.put_user("u1", {"height": 1.8})),
        ("attributes.genre", lambda r: r.put_item("i1", {"genre": "a"})),
        ("attributes.colour", lambda r: r.put_item("i1", {"genre": ["a"], "colour": "red"})),
        ("attributes.age", lambda r: r.recommend("u1", attributes={"age": None})),
        ("where.genre", lambda r: r.recommend("u1", where={"genre": 2.5})),
        ("where.colour", lambda r: r.recommend("u1", where={"colour": "red"})),
    ],
)
def test_an_error_knows_the_part_of_a_record_that_it_is_about(
    field: str, action: Callable[[Recommender], object], unchanged: Callable[..., str]
) -> None:
    recommender = filled()
    unchanged(recommender, InvalidInput, lambda: action(recommender))
    with pytest.raises(InvalidInput) as raised:
        action(recommender)
    assert raised.value.field == field


def test_one_attribute_that_is_not_declared_is_refused_alone_too() -> None:
    recommender = Recommender(Schema(item=[Id(), Category("brand"), Number("price")]))
    for attributes in ({"colour": "red"}, {"brand": "b", "colour": "red"}, {"brand": "b", "price": 1, "colour": "red"}):
        with pytest.raises(InvalidInput, match="unknown field 'colour' = 'red'; the schema declares brand, price"):
            recommender.put_item("i", attributes)
    assert recommender.items() == []


def test_items_that_are_put_together_share_what_is_the_same_and_nothing_that_is_only_equal() -> None:
    encoder = Encoder(Schema(item=[Id(), Category("brand"), Categories("tags")]))
    memo: dict[int, dict[object, ItemAttribute]] = {}

    def described(**attributes: object) -> ItemAttribute:
        (own,) = encoder.describe_item("i", attributes, memo)
        return own

    for raw, label in ((True, "true"), (1, "1"), (True, "true"), ("1", "1"), (False, "false"), (0, "0")):
        assert described(brand=raw).features == [(label, 1.0)]
    for raw, labels in ((["a", True], ["a", "true"]), (["a", 1], ["a", "1"]), (["a", "1"], ["a", "1"])):
        assert [label for label, _ in described(tags=raw).features] == labels
    for attributes in ({"brand": "x"}, {"brand": True}, {"tags": ["a", "b"]}, {"tags": ("a", "b")}):
        assert described(**attributes) is described(**attributes)
    assert described(brand=7) is not described(brand=7), "there are too many numbers to keep"
