"""Tables that are written row by row hold persons' data."""

import os
from pathlib import Path

import pytest

from coldstream.events.table_writing import WRITERS, writer_of


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_table_is_its_owners_alone(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"users{suffix}"
    before = os.umask(0)
    try:
        with writer_of(path)(path, {"user": "text"}) as table:
            table.write({"user": "ann"})
            (temporary,) = tmp_path.iterdir()
            assert temporary.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
