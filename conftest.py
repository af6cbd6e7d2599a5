"""Where the examples in the documentation run."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _an_empty_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An example takes nothing for granted that somebody who pastes it would not have."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
