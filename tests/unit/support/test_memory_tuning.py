"""Huge pages change what a fork costs, and nothing else."""

import asyncio
import gc
import itertools
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from coldstream.support import memory_tuning
from coldstream.support.memory_tuning import Collapsing, collapse, small_bytes
from patience import PATIENCE

SIZE = 64 * 2**20
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
needs_linux = pytest.mark.skipif(
    sys.platform != "linux" or not SETTING.exists() or "[never]" in SETTING.read_text(), reason="no huge pages here"
)


@needs_linux
def test_what_python_allocates_is_moved_together_and_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_tuning, "WORTHWHILE", 0)
    numbers = [(n, str(n)) for n in range(600_000)]
    before = small_bytes()
    if collapse(60.0) == 0:
        pytest.skip("this kernel does not move pages together when it is asked to")
    assert small_bytes() < before - 16 * 2**20
    assert numbers == [(n, str(n)) for n in range(600_000)]


def test_little_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_tuning, "WORTHWHILE", 2**60)
    assert collapse(60.0) == 0


def test_there_is_an_end_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_tuning, "WORTHWHILE", 0)
    assert collapse(-1.0) == 0


def test_other_systems_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_tuning, "_libc", None)
    assert collapse(60.0) == 0


@needs_linux
def test_what_falls_apart_while_a_fork_lives_is_moved_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_tuning, "WORTHWHILE", 0)
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
    begun, told, release = list[float](), list[bool](), Event()

    def long(longest: float, is_over: Callable[[], bool]) -> int:
        begun.append(longest)
        given_up = monotonic() + PATIENCE
        while not is_over():
            release.set()
            assert monotonic() < given_up, "nobody said that it is over"
        told.append(True)
        return 0

    async def beside() -> None:
        collapsing = Collapsing()
        collapsing.begin()
        collapsing.begin()
        assert await asyncio.to_thread(release.wait, PATIENCE)
        await collapsing.end()
        collapsing.begin()
        await collapsing.end()

    monkeypatch.setattr(memory_tuning, "collapse", long)
    asyncio.run(beside())
    assert (begun, told) == ([memory_tuning.LONGEST_BESIDE], [True])


# What is asked of Linux, without Linux


class Proc:
    """Files of a process, as they are told to be."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        monkeypatch.setattr(memory_tuning, "Path", lambda name: folder / Path(name).name)

    def write(self, name: str, *lines: str) -> None:
        (self._folder / name).write_text("\n".join(lines) + "\n")


def mapping(first: int, size: int, small: int, huge: int = 0, access: str = "rw-p", inode: int = 0, name: str = "") -> str:
    """A mapping of `smaps`: so many bytes, of which so many lie in small pages and so many in huge ones."""
    head = f"{first:x}-{first + size:x} {access} 00000000 00:00 {inode} {name:>30}".rstrip()
    kib = [("Size", size), ("Anonymous", small + huge), ("LazyFree", 0), ("AnonHugePages", huge)]
    return "\n".join([head + " " * (not name), *(f"{what}: {own // 1024:>10} kB" for what, own in kib), "VmFlags: rd wr"])


MIB = 2**20


def test_what_lies_in_small_pages_is_what_is_not_in_huge_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Proc(tmp_path, monkeypatch)
    assert small_bytes() == 0  # a kernel that does not tell
    own.write("smaps_rollup", "00400000-7fff ---p 00000000 00:00 0 [rollup]", "Rss:  900 kB", "Anonymous:     700 kB")
    assert small_bytes() == 700 * 1024
    own.write("smaps_rollup", "Anonymous:     700 kB", "AnonHugePages:     300 kB", "ShmemPmdMapped: 5 kB")
    assert small_bytes() == 400 * 1024


def test_large_mappings_of_small_pages_are_looked_at_and_no_stacks_or_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = [
        mapping(1 * 2**30, 4 * MIB, 2 * MIB),
        mapping(2 * 2**30, 8 * MIB, 1 * MIB),  # a thread's stack
        mapping(3 * 2**30, 4 * MIB - 4096, 3 * MIB),
        mapping(4 * 2**30, 64 * MIB, 2 * MIB - 4096, huge=32 * MIB),
        mapping(5 * 2**30, 64 * MIB, 2 * MIB, huge=32 * MIB),
        mapping(6 * 2**30, 64 * MIB, 64 * MIB, inode=77, name="/lib/libpython.so"),
        mapping(7 * 2**30, 64 * MIB, 64 * MIB, access="r--p"),
        mapping(8 * 2**30, 64 * MIB, 64 * MIB, name="[heap]"),
        mapping(9 * 2**30, 64 * MIB, 64 * MIB, name="[stack]"),
    ]
    Proc(tmp_path, monkeypatch).write("smaps", *maps)
    found = [(first // 2**30, (last - first) // MIB) for first, last in memory_tuning._scattered()]
    assert found == [(1, 4), (5, 64), (8, 64)]


class Asked:
    """The C library, which notes what it is asked to move together."""

    def __init__(self) -> None:
        self.addresses: list[int] = []
        self.answers = itertools.cycle([0, 0, -1])

    def madvise(self, address: Any, size: Any, advice: int) -> int:
        assert (size.value, advice) == (memory_tuning.HUGE, 25)
        self.addresses.append(address.value)
        return next(self.answers)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    own = Asked()
    monkeypatch.setattr(memory_tuning, "_libc", own)
    monkeypatch.setattr(memory_tuning, "small_bytes", lambda: memory_tuning.WORTHWHILE)
    spans = [(10 * MIB, 16 * MIB), (21 * MIB, 27 * MIB - 1), (40 * MIB, 41 * MIB)]
    monkeypatch.setattr(memory_tuning, "_scattered", lambda: iter(spans))
    return own


def test_whole_huge_pages_within_a_mapping_are_asked_for(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    assert collapse(60.0) == 4  # of five, one could not be moved
    assert [address // MIB for address in asked.addresses] == [10, 12, 14, 22, 24]
    monkeypatch.setattr(memory_tuning, "small_bytes", lambda: memory_tuning.WORTHWHILE - 1)
    assert collapse(60.0) == 0
    assert memory_tuning.WORTHWHILE == 128 * MIB, "a fork of less takes no milliseconds"


def test_it_ends_when_its_time_is_up_with_what_was_done(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(100.0)
    monkeypatch.setattr(memory_tuning, "monotonic", lambda: next(now))
    assert collapse(2.0) == 2
    assert len(asked.addresses) == 2


def test_what_a_start_leaves_is_not_looked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[object]()
    for name in ("collect", "freeze", "set_threshold"):
        monkeypatch.setattr(gc, name, lambda *given, name=name: done.append((name, given)))
    memory_tuning.freeze_objects()
    assert [name for name, _ in done] == ["collect", "freeze", "set_threshold"]  # type: ignore[misc]
    new, _, stayed = cast(Any, done[2])[1]
    assert 700 < new <= 10_000  # seldom, and not so many that others wait for it
    assert stayed >= 10_000


def test_one_switch_turns_everything_off(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()
    monkeypatch.setattr(memory_tuning, "ENABLED", False)
    for name in ("collect", "freeze", "set_threshold", "disable"):
        monkeypatch.setattr(gc, name, lambda *_, name=name: done.append(name))
    monkeypatch.setattr(memory_tuning, "small_bytes", lambda: done.append("looked at") or 2**60)
    monkeypatch.setattr(memory_tuning, "populate", lambda _: done.append("populated"))
    reserved = SimpleNamespace(rows=1, rows_to_come=lambda first, last: [np.zeros(last - first)])

    async def learned() -> None:
        with memory_tuning.collection_paused():
            memory_tuning.RoomAhead(lambda: reserved).see_to_it()
        await asyncio.sleep(0.01)

    asyncio.run(learned())
    memory_tuning.freeze_objects()
    assert (memory_tuning.collapse(60.0), done) == (0, [])
