"""How much of a log is to go: what is too old, and a tenth more than does not fit, so as not to delete with every look."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.runtime.erasure.compaction import Compaction


def wanted(*, size: int, disk: int, retain: float = 0.0, cut: int = 0, beside: int = 0) -> int:
    async def in_store(asked: Callable[[], Any]) -> Any:
        return asked()

    store = SimpleNamespace(marks=lambda: [(100, 10.0), (300, 20.0), (900, 95.0)])
    own = Compaction(cast(Any, store), in_store, cast(Any, None), lambda: 100.0, retain, disk)
    own.size, own.cut, own._beside = size, cut, beside
    return asyncio.run(own._wanted(cast(Any, SimpleNamespace(position=1000))))


def test_what_is_kept_beside_the_log_counts() -> None:
    async def in_store(asked: Callable[[], Any]) -> Any:
        return asked()

    sizes, trims = [500, 400], list[None]()
    store = SimpleNamespace(size=lambda: sizes.pop(0), trim=lambda: trims.append(None))
    own = Compaction(cast(Any, store), in_store, cast(Any, None), lambda: 100.0, 0.0, 590, lambda: 100)
    assert asyncio.run(own._measured()) == 500
    assert trims == [None], "500 and 100 are more than there is room for"


@pytest.mark.parametrize(
    ("size", "disk", "retain", "cut", "line"),
    [
        (50_000, 0, 0.0, 0, 0),
        (50_000, 50_000, 0.0, 0, 0),  # it fits
        (100_000, 80_000, 0.0, 0, 280),  # 72,000 bytes are left, of 100 a line
        (100_000, 80_000, 0.0, 500, 640),  # 500 lines of 200 bytes
        (0, 0, 80.0, 0, 300),
        (100_000, 80_000, 80.0, 0, 300),  # whatever is more
        (100_000, 60_000, 80.0, 0, 460),
    ],
)
def test_the_last_line_that_is_to_go(size: int, disk: int, retain: float, cut: int, line: int) -> None:
    assert wanted(size=size, disk=disk, retain=retain, cut=cut) == line


@pytest.mark.parametrize(
    ("size", "beside", "line"),
    [
        (240_000, 235_000, 0),  # lists alone are beyond the limit: no line goes for them
        (90_000, 10_000, 0),  # 80,000 bytes of log in the 90,000 that lists leave
        (110_000, 10_000, 190),  # 81,000 bytes are left, of 100 a line
        (335_000, 235_000, 190),  # lists take a tenth from the log, however large they are
    ],
)
def test_lists_that_were_shown_take_a_tenth_of_the_disk_from_the_log_at_most(size: int, beside: int, line: int) -> None:
    assert wanted(size=size, disk=100_000, beside=beside) == line
