"""Chains of snapshots: a full one, and increments that build on it, each on the one before."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from coldstream.errors import InvalidSnapshot
from coldstream.snapshots.archive import read_snapshot
from coldstream.snapshots.increments import BASE, Fingerprint, State, fingerprint, is_increment, merged
from coldstream.storage.store import Saved
from coldstream.storage.view import View

Made = TypeVar("Made")


class Chain(NamedTuple):
    """What the next increment can build on."""

    full: Saved
    newest: Saved
    fingerprint: Fingerprint
    increments: int
    full_bytes: int
    """Of the full one's file."""
    increment_bytes: int
    """Of the files of all increments since."""


def read_chain(store: View, saved: Saved) -> tuple[State, Chain]:
    """The state that a snapshot stands for, whether it is a full one or an increment, and how it is made up."""
    return made_of_chain(store, saved, lambda state: state)


def made_of_chain(store: View, saved: Saved, made_of: Callable[[State], Made]) -> tuple[Made, Chain]:
    """The same with what is made of the state; meanwhile its fingerprint is found, so it has to be left as it is."""
    increments, sizes, current = list[State](), list[int](), saved
    while True:
        with store.opened(current) as path:
            state, size = read_snapshot(path), path.stat().st_size
        if not is_increment(state):
            break
        increments.append(state)
        sizes.append(size)
        current = _base(store, current, state)
    try:
        whole, found = merged(state, increments[::-1])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        message = f"snapshot {saved.number} does not fit those it builds on ({error}); use an older one"
        raise InvalidSnapshot(message) from error
    with ThreadPoolExecutor(1) as beside:
        finding = beside.submit(fingerprint, whole) if found is None else None
        made = made_of(whole)
        known = found if finding is None else finding.result()
        assert known is not None
    return made, Chain(current, saved, known, len(increments), size, sum(sizes))


def _base(store: View, saved: Saved, increment: State) -> Saved:
    """The snapshot before one that knows the line it builds on: by its line, because a restored store numbers them anew."""
    try:
        position = int(increment[0][BASE])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSnapshot(f"snapshot {saved.number} does not say what it builds on; use an older one") from error
    before = [one for one in store.snapshots() if one.number < saved.number and one.position == position]
    if not before:
        message = f"snapshot {saved.number} builds on one of line {position}, which is not there"
        raise InvalidSnapshot(f"{message}; use an older one")
    return max(before)
