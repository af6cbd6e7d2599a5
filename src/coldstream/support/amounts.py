"""Parsing of durations and sizes such as `90d` and `20 GiB`."""

import re

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
BYTES = {"B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "GB": 10**9, "TB": 10**12, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

DURATION = "a length of time such as 90d, 12h, 30m or 45s"
SIZE = "a size such as 20 GiB or 500 MB"


def seconds_of(text: object) -> float | None:
    """Return the seconds of a duration, or None if the text is not a positive one.

    >>> seconds_of("90d"), seconds_of("1.5 h"), seconds_of("0d"), seconds_of("soon")
    (7776000.0, 5400.0, None, None)
    """
    return _amount(text, SECONDS)


def bytes_of(text: object) -> int | None:
    """Return the bytes of a size, or None if the text is not a positive one.

    >>> bytes_of("20 GiB"), bytes_of("1.5GB"), bytes_of("20")
    (21474836480, 1500000000, None)
    """
    amount = _amount(text, BYTES)
    return None if amount is None else int(amount)


def in_mebibytes(count: int) -> str:
    """Format a number of bytes in MiB, rounded up.

    >>> in_mebibytes(2**20), in_mebibytes(2**20 + 1)
    ('1 MiB', '2 MiB')
    """
    return f"{-(-count // 2**20)} MiB"


def _amount(text: object, units: dict[str, int]) -> float | None:
    if not isinstance(text, str):
        return None
    parts = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([A-Za-z]+)\s*", text, re.ASCII)
    if parts is None or parts[2] not in units:
        return None
    return float(parts[1]) * units[parts[2]] or None
