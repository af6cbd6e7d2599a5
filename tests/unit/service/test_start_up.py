"""A start that is not over yet says what it does and for how long."""

import pytest

from coldstream.service import service as module
from coldstream.service.service import StartUp


def test_a_start_says_how_long_it_has_been_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 103.5])
    monkeypatch.setattr(module, "monotonic", lambda: next(now))
    start = StartUp()
    assert start.phase == "recovering"
    assert start.seconds == 3.5
