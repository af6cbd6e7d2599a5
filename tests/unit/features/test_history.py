"""What history fields say of a user, and how many of the last items they ask for."""

from typing import Any

import pytest

from coldstream import (
    Again,
    Categories,
    Event,
    Follows,
    Id,
    LastAttribute,
    LastItem,
    LastItems,
    Recommender,
    Schema,
    Together,
)
from coldstream.features.history import HistoryFields, check_last_item


def features(schema: Schema) -> set[tuple[str, str, float]]:
    """What a user who chose `a`, then `b`, brings to the next request from history."""
    recommender = Recommender(schema, factors=2)
    recommender.put_items([("a", {"genre": ["x", "y"]}), ("b", {"genre": ["y", "z"]})])
    recommender.learn([Event("u", "a"), Event("u", "b")])
    users = recommender.engine.users
    recent, _ = users.past(users["u"])
    fields = recommender.engine.shared.encoder.vocabulary.fields
    named = recommender.engine.shared.encoder.history.features(recent, recommender.engine.shared.catalogue.ids)
    return {(fields[field].removeprefix("context."), value, round(weight, 4)) for field, value, weight in named}


def schema(*context: Any) -> Schema:
    return Schema(user=[Id()], item=[Id(), Categories("genre")], context=list(context))


def test_the_attribute_of_the_last_item_is_remembered_as_it_was() -> None:
    assert features(schema(LastAttribute("before", of="genre"))) == {("before", "y", 1.0), ("before", "z", 1.0)}


def test_the_last_items_are_remembered() -> None:
    assert features(schema(LastItem())) == {("last_item", "b", 1.0)}
    assert features(schema(LastItems(length=2))) == {("last_items", "a", 0.7071), ("last_items", "b", 0.7071)}


@pytest.mark.parametrize(
    ("crossed", "window"),
    [([], 0), ([Follows()], 1), ([Again()], 1), ([Follows(), Together(length=7)], 7), ([Together(length=1), Again()], 1)],
)
def test_as_many_of_the_last_items_have_neighbours_as_a_field_asks_for(crossed: list[Any], window: int) -> None:
    own = Schema(user=[Id()], item=[Id(), *crossed], context=[])
    assert HistoryFields(own, {}).window == window


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "1", None])
def test_a_weight_that_is_no_number_is_refused(weight: Any) -> None:
    check_last_item(((0, "x", 1.0), (1, "y", 2)), 2)
    with pytest.raises(ValueError, match="last item"):
        check_last_item(((0, "x", weight),), 2)
