"""Where the examples in the documentation run, and the order in which all tests do."""

import random
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--shuffle`."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the files, and the tests of each, in a random order")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle files, and tests within each file: what a file shares is set up once all the same."""
    if (seed := config.getoption("shuffle")) is not None:
        chance, place = random.Random(seed), dict[Path, float]()  # noqa: S311
        chance.shuffle(items)
        items.sort(key=lambda item: place.setdefault(item.path, chance.random()))


@pytest.fixture(autouse=True)
def _an_empty_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An example takes nothing for granted that somebody who pastes it would not have."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
