"""What is public is a list, and every name on it is there and documented."""

import inspect
from importlib.metadata import version
from pathlib import Path

import coldstream
from coldstream import Event, FactorizationMachine, Recommender, Schema


def test_the_list() -> None:
    assert sorted(coldstream.__all__) == [
        "Again", "Categories", "Category", "ColdstreamError", "Diverged", "Event", "Explanation", "FactorizationMachine",
        "Follows", "Hyperparameters", "Id", "InvalidInput", "InvalidSchema", "InvalidSnapshot", "LastAttribute", "LastItem",
        "LastItems", "LastTimePart", "Number", "Rank", "Recommendation", "Recommender", "Schema", "Term", "TimePart",
        "Together", "Trend", "UnknownId",
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


def test_what_is_printed_says_how_much_is_known() -> None:
    recommender = Recommender(Schema())
    assert repr(recommender) == "<Recommender: 0 users, 0 items, 0 events, 6 features>"
    recommender.put_item("a")
    recommender.observe(Event("u", "b"))
    assert repr(recommender).startswith("<Recommender: 1 users, 2 items, 1 events, ")
    machine = FactorizationMachine("predictor", factors=2)
    machine.learn_one({"city": "Kyoto", "rooms": 2.0}, 1.5)
    assert repr(machine) == "<FactorizationMachine: squared loss, 2 features, 1 samples>"
