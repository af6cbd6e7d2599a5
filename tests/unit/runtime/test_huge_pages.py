"""Huge pages change what a fork costs, and nothing else."""

import sys
from pathlib import Path

import pytest

from coldstream.runtime import huge_pages
from coldstream.runtime.huge_pages import collapse, small_bytes

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
needs_linux = pytest.mark.skipif(
    sys.platform != "linux" or not SETTING.exists() or "[never]" in SETTING.read_text(), reason="no huge pages here"
)


@needs_linux
def test_what_python_allocates_is_moved_together_and_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "WORTHWHILE", 0)
    numbers = [(n, str(n)) for n in range(600_000)]
    before = small_bytes()
    if collapse(60.0) == 0:
        pytest.skip("this kernel does not move pages together when it is asked to")
    assert small_bytes() < before - 16 * 2**20
    assert numbers == [(n, str(n)) for n in range(600_000)]


def test_little_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "WORTHWHILE", 2**60)
    assert collapse(60.0) == 0


def test_there_is_an_end_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "WORTHWHILE", 0)
    assert collapse(-1.0) == 0


def test_other_systems_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_libc", None)
    assert collapse(60.0) == 0
