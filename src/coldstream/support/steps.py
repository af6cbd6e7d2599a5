"""Work in steps, between which an event loop can do other work."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Answer = TypeVar("Answer")
Steps: TypeAlias = Generator[None, None, Answer]
"""Work that yields after each step, and returns its result."""


def finished(steps: Steps[Answer]) -> Answer:
    """Run all steps at once, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
