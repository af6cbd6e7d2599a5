"""Python's search for garbage, paused while much is made of which nothing is garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Do not search for cycles meanwhile: every search looks at all there is, and a million new items cause many.

    What is referred to no more is freed all the same. Two threads may end it for each other, which costs only time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
