"""Parsers of numeric option values."""

import argparse


def whole(text: str) -> int:
    """Parse a whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, got {text!r}")
    return int(text)


def seed(text: str) -> int:
    """Parse a whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number of 0 or more, got {text!r}")
    return int(text)
