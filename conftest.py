"""What the examples in the documentation may take for granted."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _a_path_to_save_to(doctest_namespace: dict[str, Any], tmp_path: Path) -> None:
    doctest_namespace["path"] = tmp_path / "snapshot"
