"""Chains of snapshots: a full snapshot followed by increments, each of which builds on the one before."""

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
    """A full snapshot and its increments, on which the next increment can build."""

    full: Saved
    newest: Saved
    """The last increment, or the full snapshot where there is none."""
    fingerprint: Fingerprint
    """The fingerprint of the newest snapshot's state."""
    increments: int
    full_bytes: int
    """The size of the full snapshot's file."""
    increment_bytes: int
    """The total size of the increments' files."""


def read_chain(store: View, saved: Saved) -> tuple[State, Chain]:
    """Return the state that a full or incremental snapshot stands for, and the chain that it ends.

    Raises `InvalidSnapshot` where a file of the chain is missing or damaged.
    """
    return made_of_chain(store, saved, lambda state: state)


def made_of_chain(store: View, saved: Saved, made_of: Callable[[State], Made]) -> tuple[Made, Chain]:
    """Read a snapshot, build an object from its state with `made_of`, and return the object and the chain.

    A thread computes the fingerprint of the state meanwhile, so `made_of` must not change the state. Raises
    `InvalidSnapshot` where a file of the chain is missing or damaged.
    """
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
    """Return the snapshot on which an increment builds.

    It is found by its log position, because a restored store numbers its snapshots anew.
    """
    try:
        position = int(increment[0][BASE])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSnapshot(f"snapshot {saved.number} does not say what it builds on; use an older one") from error
    before = [one for one in store.snapshots() if one.number < saved.number and one.position == position]
    if not before:
        message = f"snapshot {saved.number} builds on one of line {position}, which is not there"
        raise InvalidSnapshot(f"{message}; use an older one")
    return max(before)
