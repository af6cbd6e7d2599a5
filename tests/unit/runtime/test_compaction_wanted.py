"""How much of a log is to go: what is too old, and a tenth more than does not fit, so as not to delete with every look."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.runtime.erasure.compaction import Compaction


def wanted(*, size: int, disk: int, retain: float = 0.0, cut: int = 0, position: int = 1000) -> int:
    async def in_store(asked: Callable[[], Any]) -> Any:
        return asked()

    store = SimpleNamespace(marks=lambda: [(100, 10.0), (300, 20.0), (900, 95.0)])
    own = Compaction(cast(Any, store), in_store, cast(Any, None), lambda: 100.0, retain, disk)
    own.size, own.cut = size, cut
    return asyncio.run(own._wanted(cast(Any, SimpleNamespace(position=position))))


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
