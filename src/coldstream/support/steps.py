"""Work in steps, so that an event loop can do something else between two of them."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Answer = TypeVar("Answer")
Steps: TypeAlias = Generator[None, None, Answer]
"""Work that yields after each step, and returns its answer."""


def finished(steps: Steps[Answer]) -> Answer:
    """Do all steps at once, and return the answer."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
