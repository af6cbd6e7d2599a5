"""Lengths of time and sizes, as settings give them."""

import pytest

from coldstream.errors import InvalidInput
from coldstream.service.service import writer_limits
from coldstream.service.settings import Settings
from coldstream.support.amounts import bytes_of, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90d", 7_776_000), ("45s", 45), ("30m", 1800), ("12h", 43_200), ("2w", 1_209_600), (" 1.5 h ", 5400), ("0.5s", 0.5)],
)
def test_a_length_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "0d", "90 days", "1e3s", "∞", "90D", "9999999999999d"])
def test_what_is_no_length_of_time(text: str) -> None:
    assert seconds_of(text) is None
    with pytest.raises(InvalidInput, match="retain must be a length of time such as 90d"):
        Settings(retain=text)


@pytest.mark.parametrize(
    ("text", "size"), [("20 GiB", 20 * 2**30), ("500MB", 5 * 10**8), ("1 TiB", 2**40), ("1.5 GB", 15 * 10**8)]
)
def test_a_size(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["20", "20 gib", "20 GiBs", "0 GB", "-1 GB", "many"])
def test_what_is_no_size(text: str) -> None:
    assert bytes_of(text) is None
    with pytest.raises(InvalidInput, match="disk must be a size such as 20 GiB"):
        Settings(disk=text)


def test_the_writer_hears_of_them() -> None:
    limits = writer_limits(Settings(retain="90d", disk="20 GiB", erase_minutes=5))
    assert (limits.retain_seconds, limits.disk_bytes, limits.erase_seconds) == (7_776_000, 20 * 2**30, 300)
    limits = writer_limits(Settings())
    assert (limits.retain_seconds, limits.disk_bytes, limits.erase_seconds) == (0, 0, 600)
