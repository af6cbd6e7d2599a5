"""Huge pages change what a fork costs, and nothing else."""

import asyncio
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from coldstream.runtime import huge_pages
from coldstream.runtime.huge_pages import Collapsing, collapse, small_bytes

SIZE = 64 * 2**20
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


@needs_linux
def test_what_falls_apart_while_a_fork_lives_is_moved_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "WORTHWHILE", 0)
    memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _write_to_every_page(memory)
    before = small_bytes()
    if collapse(60.0) == 0 or small_bytes() > before - SIZE // 2:
        pytest.skip("this kernel does not move pages together when it is asked to")
    whole = small_bytes()
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.read(reading, 1)
        os._exit(0)
    _write_to_every_page(memory)
    os.write(writing, b".")
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    assert small_bytes() > whole + SIZE // 2

    async def beside() -> None:
        collapsing = Collapsing()
        collapsing.begin()
        while collapsing._task is not None and not collapsing._task.done():
            await asyncio.sleep(0.01)
        await collapsing.end()

    asyncio.run(beside())
    assert small_bytes() < whole + SIZE // 4
    assert memory[:: mmap.PAGESIZE] == b"x" * (SIZE // mmap.PAGESIZE)


def _write_to_every_page(memory: mmap.mmap) -> None:
    for at in range(0, SIZE, mmap.PAGESIZE):
        memory[at : at + 1] = b"x"


def test_beside_others_there_is_one_at_a_time_and_none_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = list[float](), Event()

    def long(longest: float, is_over: Callable[[], bool]) -> int:
        begun.append(longest)
        while not is_over():
            release.set()
        return 0

    async def beside() -> None:
        collapsing = Collapsing()
        collapsing.begin()
        collapsing.begin()
        assert await asyncio.to_thread(release.wait, 10.0)
        started = monotonic()
        await collapsing.end()
        assert monotonic() - started < 5.0
        collapsing.begin()
        await collapsing.end()

    monkeypatch.setattr(huge_pages, "collapse", long)
    asyncio.run(beside())
    assert begun == [huge_pages.LONGEST_BESIDE]
