"""Whether a store keeps its word: the log is replayed, and every snapshot on the way must be the same, bit by bit."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from coldstream.errors import InvalidSnapshot, StoreUnavailable
from coldstream.runtime.chain import read_chain
from coldstream.runtime.fingerprint import digest
from coldstream.runtime.learner import OWN, Learner
from coldstream.runtime.records import record_of
from coldstream.runtime.recovery import at_the_beginning, loaded
from coldstream.runtime.team import Hire, Hiring
from coldstream.snapshots.increments import State
from coldstream.storage.store import Entry, Saved
from coldstream.storage.view import View

LINES_BETWEEN_ADVANCES = 1000


class Held(NamedTuple):
    """What a running replica says that it holds."""

    name: str
    position: int
    digest: str


class Verdict(NamedTuple):
    """What was found out."""

    base: int
    """The position where the replay began."""
    last: int
    """The position where it ended."""
    replayed: int
    same: list[Saved]
    """Snapshots that the replay led to."""
    cut: int
    """The last line of those that were deleted because they were old: only what is behind it could be looked at."""
    different: list[tuple[Saved, str]]
    """Those that it did not lead to, or that cannot be read, and why."""
    held: list[tuple[Held, str]]
    """Replicas that were compared, and what is wrong with each; nothing, where all bits are the same."""


def verified(
    store: View,
    recent: bool,
    advance: Callable[[int], None],
    replicas: Sequence[Held] = (),
    here: Hire | None = None,
) -> Verdict:
    """Replay the log from its oldest base, or if only the recent part matters from the oldest snapshot, and compare.

    `advance` hears now and then how many lines are done. Replicas are compared that were asked before. `here`
    makes the learners of a log of several.
    """
    # By position: of two writers, the one that knows less may have taken the later snapshot.
    waiting = sorted(store.snapshots(), key=lambda saved: (saved.position, saved.number))
    erased, different = store.base(), list[tuple[Saved, str]]()
    learner = _oldest(store, waiting, different) if recent or store.base() else None
    if learner is None:
        learner = at_the_beginning(store)
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
    # Where people were erased, nothing before the base is replayed, and yet no line may be missing or changed.
    for entry in _watched(store.read(base if recent else 0), advance):
        if entry.position <= base:
            continue
        compare(entry.position)
        learner.apply(entry.position, record_of(entry))
        replayed += 1
    compare(float("inf"))
    if store.base() > max(erased, base):  # lines that are deleted before the snapshot it began with are not missed
        raise StoreUnavailable("people were erased or lines deleted meanwhile, so the replay missed lines; run it again")
    kept = store.snapshots()  # the service may have replaced some meanwhile, which is no fault of theirs
    told = [found for found in different if found[0] in kept]
    return Verdict(base, learner.position, replayed, same, store.cut(), told, held)


def difference(state: State, other: State) -> str:
    """The first part of two recommenders' states that differs; nothing, if all bits are the same."""
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
    """The learner of the oldest snapshot that is whole."""
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
