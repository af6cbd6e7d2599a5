"""What is public is a list, and every name on it is there and documented."""

import inspect
from importlib.metadata import version
from pathlib import Path

import pytest

import coldstream
from coldstream import Event, Recommender, Schema


def test_the_list() -> None:
    assert sorted(coldstream.__all__) == [
        "Again", "Availability", "Boost", "Bounds", "Categories", "Category", "ColdstreamError", "Diverged", "Event",
        "Explanation", "FactorizationMachine", "Feedback", "Follows", "Hyperparameters", "Id", "Image", "InvalidInput",
        "InvalidSchema", "InvalidSnapshot", "LastAttribute", "LastItem", "LastItems", "LastTimePart", "Number", "Rank",
        "Recommendation", "Recommender", "Rules", "Schema", "Term", "TimePart", "Title", "Together", "Trend", "UnknownId",
    ]  # fmt: skip


def test_every_name_is_documented() -> None:
    for name in coldstream.__all__:
        public = getattr(coldstream, name)
        assert inspect.getdoc(public), name
        for member, value in vars(public).items():
            if not member.startswith("_") and inspect.isfunction(value) and "features" not in member:
                assert inspect.getdoc(value), f"{name}.{member}"


def test_types_are_shipped() -> None:
    assert (Path(coldstream.__file__).parent / "py.typed").exists()


def test_the_version_is_that_of_the_package() -> None:
    assert coldstream.__version__ == version("coldstream")


@pytest.mark.parametrize("events", [0, 3])
def test_the_repr_of_a_recommender_says_what_it_is_and_knows(events: int) -> None:
    recommender = Recommender(Schema(), seed=7, factors=3, history=0, trends=(), neighbours=0)
    for n in range(events):
        recommender.learn(Event(f"u{n}", "i"))
    known = f"{bool(events):d} items, {events} users, {events + bool(events)} features, {events} events"
    assert repr(recommender) == f"<Recommender: {known}; loss='softmax', factors=3, seed=7>"
