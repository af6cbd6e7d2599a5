"""What is public is a list, and every name on it is there and documented."""

import inspect
from pathlib import Path

import coldstream


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
