"""Shared ground of the tests."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from coldstream import Recommender

# Every run tries the same examples, on every machine: a failure is of the change, and anybody sees it again.
settings.register_profile(
    "coldstream",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("coldstream")


def bits(recommender: Recommender) -> tuple[str, dict[str, bytes]]:
    """Everything a recommender is, down to the last bit."""
    document, arrays = recommender.state()
    return repr(document), {name: array.tobytes() + str(array.shape).encode() for name, array in arrays.items()}


@pytest.fixture
def unchanged() -> Callable[..., Any]:
    """Run an action that must raise, and check that the recommender is the same bytes before and after."""

    def check(recommender: Recommender, error: type[Exception], action: Callable[[], object]) -> str:
        before, weighs = bits(recommender), recommender.memory
        with pytest.raises(error) as raised:
            action()
        assert bits(recommender) == before
        assert recommender.memory == weighs
        return str(raised.value)

    return check


@pytest.fixture(scope="session")
def movielens() -> Path:
    """The folder of ML-100k, from COLDSTREAM_DATA."""
    folder = Path(os.environ.get("COLDSTREAM_DATA", "../shared/data")) / "ml-100k"
    if not (folder / "u.data").exists():
        pytest.skip(f"no ML-100k in {folder}: set COLDSTREAM_DATA to the folder that holds ml-100k/u.data")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
