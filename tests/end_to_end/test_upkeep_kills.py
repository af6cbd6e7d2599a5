"""Killed while old lines are deleted, and while a backup is written: the short version of `tests/torture`."""

from pathlib import Path

import pytest
from served import POSTGRES, SQLITE

pytest_plugins = ["postgres_server"]

TESTS = Path(__file__).parent.parent
ROUNDS = 14
"""Enough that lines become old."""


@pytest.mark.parametrize("kind", [SQLITE, POSTGRES])
def test_kills_while_lines_are_deleted_or_a_backup_is_written_lose_nothing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for folder in ("contracts", "torture"):
        monkeypatch.syspath_prepend(str(TESTS / folder))
    from upkeep_kills import campaign

    def url(folder: Path) -> str:
        if kind == SQLITE:
            return f"{SQLITE}:{folder / 'data'}"
        return str(request.getfixturevalue("postgres").new_schema())

    compaction, backups = campaign(url, ROUNDS, 7, lambda _: None, kind)
    assert compaction.deleted > 100
    assert backups.deleted > 0
