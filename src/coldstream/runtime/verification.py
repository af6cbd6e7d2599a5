"""Verification of a store: replay the log and compare every snapshot on the way with the replayed state, bit by bit."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from coldstream.errors import InvalidSnapshot, StoreUnavailable
from coldstream.runtime.chain import read_chain
from coldstream.runtime.fingerprint import digest
from coldstream.runtime.learner import OWN, Learner
from coldstream.runtime.records import record_of
from coldstream.runtime.recovery import at_the_beginning, loaded
from coldstream.runtime.rule import check_rule
from coldstream.runtime.team import Hire, Hiring
from coldstream.snapshots.increments import State
from coldstream.storage.store import Entry, Saved
from coldstream.storage.view import View

LINES_BETWEEN_ADVANCES = 1000


class Held(NamedTuple):
    """The position and the digest of the state that a running replica reports."""

    name: str
    position: int
    digest: str


class Verdict(NamedTuple):
    """The result of a verification."""

    base: int
    """The position where the replay began."""
    last: int
    """The position where the replay ended."""
    replayed: int
    """The number of lines that were replayed."""
    same: list[Saved]
    """Snapshots that are identical to the replayed state."""
    cut: int
    """The position up to which old lines were deleted from the log, so that they could not be checked."""
    different: list[tuple[Saved, str]]
    """Snapshots that differ from the replayed state or cannot be read, each with the reason."""
    held: list[tuple[Held, str]]
    """Replicas that were compared, each with the difference that was found; an empty text where all bits are the same."""


def verified(
    store: View,
    recent: bool,
    advance: Callable[[int], None],
    replicas: Sequence[Held] = (),
    here: Hire | None = None,
) -> Verdict:
    """Replay the log, and compare the state with every snapshot and with what replicas reported.

    The replay begins with the log, or with the oldest readable snapshot if `recent` is set or lines were erased.
    `advance` is called from time to time with the number of lines read. `here` makes the parallel learners of a log that
    has several. Raises `StoreDamaged` for a damaged log and `StoreUnavailable` where lines were erased or deleted meanwhile.
    """
    # Sorted by position, because of two writers the one that is behind may have taken the later snapshot.
    waiting = sorted(store.snapshots(), key=lambda saved: (saved.position, saved.number))
    erased, different = store.base(), list[tuple[Saved, str]]()
    learner = _oldest(store, waiting, different) if recent or store.base() else None
    if learner is None:
        learner = at_the_beginning(store)
    check_rule(learner.rule)
    learner.hiring = Hiring(here=here)
    base, replayed, same = learner.position, 0, list[Saved]()
    asked, held = sorted(replicas, key=lambda one: one.position), list[tuple[Held, str]]()

    def compare(before: float) -> None:
        while waiting and waiting[0].position < before:
            saved = waiting.pop(0)
            reason = _disagreement(store, saved, learner)
            if reason:
                different.append((saved, reason))
            else:
                same.append(saved)
        while asked and asked[0].position < before:
            one = asked.pop(0)
            held.append((one, _disagreement_of(one, learner, base)))

    store.check()
    # Lines before the base are read although they are not replayed: `read` raises if one is missing or changed.
    for entry in _watched(store.read(base if recent else 0), advance):
        if entry.position <= base:
            continue
        compare(entry.position)
        learner.apply(entry.position, record_of(entry))
        replayed += 1
    compare(float("inf"))
    if store.base() > max(erased, base):  # deletions before the snapshot where the replay began do no harm
        raise StoreUnavailable("people were erased or lines deleted meanwhile, so the replay missed lines; run it again")
    kept = store.snapshots()  # the service may have discarded some meanwhile, which are then not reported
    told = [found for found in different if found[0] in kept]
    return Verdict(base, learner.position, replayed, same, store.cut(), told, held)


def difference(state: State, other: State) -> str:
    """Return the name of the first part in which two recommenders' states differ, or an empty text if all bits agree."""
    for name in sorted((state[0].keys() | other[0].keys()) - {OWN}):
        if json.dumps(state[0].get(name)) != json.dumps(other[0].get(name)):
            return name
    arrays, others = ({name: a for name, a in arrays.items() if not name.startswith(OWN)} for _, arrays in (state, other))
    for name in sorted(arrays.keys() | others.keys()):
        one, two = arrays.get(name), others.get(name)
        if one is None or two is None or (one.dtype, one.shape) != (two.dtype, two.shape) or one.tobytes() != two.tobytes():
            return name
    return ""


def _oldest(store: View, waiting: list[Saved], different: list[tuple[Saved, str]]) -> Learner | None:
    """Load the oldest readable snapshot, and append those that cannot be read to `different`."""
    for saved in waiting:
        try:
            return loaded(store, saved)
        except InvalidSnapshot as error:
            different.append((saved, str(error)))
    waiting.clear()
    return None


def _disagreement(store: View, saved: Saved, learner: Learner) -> str:
    try:
        loaded(store, saved)
        differs = difference(read_chain(store, saved)[0], learner.view())
    except InvalidSnapshot as error:
        return str(error)
    return f"the replay led to another {differs}" if differs else ""


def _disagreement_of(one: Held, learner: Learner, base: int) -> str:
    if one.position < base:
        return f"the replay begins at line {base}, behind it; ask it again when it has caught up"
    return "" if digest(learner.view()) == one.digest else "the replay led to other bits"


def _watched(entries: Iterable[Entry], advance: Callable[[int], None]) -> Iterator[Entry]:
    for done, entry in enumerate(entries, 1):
        yield entry
        if done % LINES_BETWEEN_ADVANCES == 0:
            advance(done)
