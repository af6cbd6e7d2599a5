"""The exchange between learners of one stream: the context of events that others learn, and what each has learned.

Every learner has all items and counts all events in their order, so trends and neighbours are equal in all learners, bit by
bit. Each user belongs to one learner, as do the columns of the users' ids. All other rows of Θ are shared: each learner
starts from the common state of the last merge, and the next merge combines their changes (`merging.py`).

Rows travel by the names of their features, since a column has other numbers in other learners. New features start equal in
all learners, because an initial vector is a function of the seed and the name.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.cluster.merging import merge_rows, merged_penalties, merged_surprise
from coldstream.engine.shared_model import SharedModel
from coldstream.errors import InvalidInput, shown
from coldstream.events.clock import Clock
from coldstream.events.event import Event
from coldstream.model.keyed_random import fill_normal, keys_of
from coldstream.support.arrays import Flags, Integers, grown
from coldstream.support.compiled import unchecked_entry
from coldstream.support.ragged import joined_texts, texts
from coldstream.users.states import MOST_TRIED, Seen, UserStates

_fill_normal = unchecked_entry(fill_normal)

SURPRISE = "surprise"
PENALTIES = ("w0", "G0", "lambda0", "lambda_w", "lambda_V", "penalty_mean_square", SURPRISE)
STAMP = "touched_at"


@lru_cache(2**16)  # saves hashing users again who return soon
def owner(user: str, learners: int) -> int:
    """Return the number of the learner that a user belongs to, which is the same on every machine and in every run."""
    return 0 if learners == 1 else int.from_bytes(blake2b(user.encode(), digest_size=8).digest(), "little") % learners


class Changes(NamedTuple):
    """The changes of one learner since the last merge, as arrays."""

    learner: int
    column: Integers
    """The columns it touched, by its own numbers."""
    rows: Mapping[str, NDArray[Any]]
    """Present contents of these columns, by the names of `Rows`."""
    named: Integers
    """Places in `column` of the features whose names other learners may not know."""
    field: Integers
    """Field numbers of the features in `named`."""
    value: Flags
    """Values of the features in `named`, joined into one text."""
    value_length: Integers
    """Length of each value in `value`."""
    penalties: Mapping[str, NDArray[Any]]
    """Present values of w0 and λ, with their optimizer state."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        arrays = (*self.rows.values(), *self.penalties.values(), self.column, self.named, self.field, self.value)
        return int(sum(own.nbytes for own in arrays) + self.value_length.nbytes)


class _Peer:
    """Names of another learner's columns, as far as it has told them, and the numbers of the same columns here."""

    def __init__(self) -> None:
        self.names: dict[int, tuple[int, str]] = {}
        self.columns: Integers = np.zeros(0, np.int32)  # −1 where not looked up yet
        self.release_count = 0


class Exchange:
    """One learner's side of the exchange."""

    def __init__(self, shared: SharedModel, users: UserStates, learner: int, learners: int) -> None:
        if not 0 <= learner < learners:
            raise InvalidInput(f"learner must be from 0 to {learners - 1}, got {shown(learner)}")
        if learners > 1:
            shared.check_learners()
        self.learner, self.learners = learner, learners
        self._shared, self._users = shared, users
        self._peers = [_Peer() for _ in range(learners)]
        self._told: NDArray[np.bool_] = np.zeros(0, np.bool_)  # by column, whether the other learners know its name
        self._release_count = shared.encoder.vocabulary.release_count
        parameters, columns = shared.machine.parameters, shared.machine.parameters.columns
        self._base = {name: getattr(parameters.rows, name)[:columns].copy() for name in self._exchanged()}
        self._based = list(shared.encoder.vocabulary.values_of(0, columns))  # each column's value then
        self._had_gaps = None in self._based
        self._known = columns  # number of columns with a base
        self._penalties = self._penalties_now()
        self._since = int(parameters.rows.touched_at[:columns].max(initial=-1))

    def is_own(self, user: str) -> bool:
        """Return whether a user belongs to this learner."""
        return owner(user, self.learners) == self.learner

    # Before a batch is learned

    def preceding(self, events: Sequence[Event], owners: Sequence[int]) -> list[tuple[list[int], bool]]:
        """Return the last items of this learner's users before each of their events, and whether each event counts.

        Both are in the form of `Elsewhere`, in the order of the events. `owners` has the learner of each event. The call
        changes nothing: the effect of a batch on its users' histories is known before the batch is learned.
        """
        shared, users = self._shared, self._users
        window, find = shared.encoder.history.window, shared.catalogue.find
        first, since, found = dict[str, int](), dict[str, tuple[list[int], Seen, Seen]](), list[tuple[list[int], bool]]()
        for number, (event, whose) in enumerate(zip(events, owners, strict=True)):
            chosen = find(event.item)
            if chosen is None:
                chosen = first.setdefault(event.item, -1 - number)
            if whose != self.learner:
                continue
            if event.user not in since:
                state = users.of(event.user)
                recent, had = users.past(state)
                since[event.user] = (list(recent.items), had.own_copy(), users.tried(state).own_copy())
            (past, seen, tried), effect = since[event.user], shared.effect_of(event)
            last = list(dict.fromkeys(reversed(past[-window:])))[::-1] if window else []
            found.append((last, bool(effect.trends) and (seen if effect.had else tried).counts(chosen)))
            if effect.history:
                past.append(chosen)
            if effect.had:
                seen.add(chosen, shared.bounds.seen)
            elif effect.trends:
                tried.add(chosen, MOST_TRIED)
        return found

    # Changes since the last merge

    def changes(self) -> Changes:
        """Return the changes since the last merge, except the rows of this learner's own users."""
        stamped = self._stamped(own=False)
        self._base_new(stamped)
        column, rows = stamped[self._differs(stamped)], self._shared.machine.parameters.rows
        untold = np.flatnonzero(~self._told[column])
        self._told[column] = True
        new = list(zip(untold.tolist(), self._names(column[untold]), strict=True))
        kept = {name: getattr(rows, name)[column] for name in (*self._exchanged(), STAMP)}
        return Changes(self.learner, column, kept, *_named(new), self._penalties_now())

    def own_changes(self) -> Changes:
        """Return the changes since the last merge in the rows of the ids of this learner's own users."""
        column, rows = self._stamped(own=True), self._shared.machine.parameters.rows
        kept = {name: getattr(rows, name)[column] for name in (*self._exchanged(), STAMP)}
        return Changes(self.learner, column, kept, *_named(list(enumerate(self._names(column)))), {})

    def merge(self, changes: Sequence[Changes], clock: Clock) -> int:
        """Merge the changes of all learners since the last merge, and return the number of rows concerned."""
        changes = sorted(changes, key=lambda one: one.learner)
        if [one.learner for one in changes] != list(range(self.learners)):
            numbers = [one.learner for one in changes]
            raise InvalidInput(f"changes must be of {self.learners} learners, each once, got those of {numbers}")
        parameters = self._shared.machine.parameters
        columns = [
            one.column if one.learner == self.learner else _columns_of(self._shared, one, self._peers[one.learner], clock)
            for one in changes
        ]
        union = np.unique(np.concatenate(columns))
        self._base_new(union)
        places, first = list[NDArray[np.intp]](), 0
        source = np.full((len(union), self.learners), -1, np.int32)
        for learner, own in enumerate(columns):
            places.append(np.searchsorted(union, own))
            source[places[-1], learner] = np.arange(first, first + len(own))
            first += len(own)
        for name in self._exchanged():
            rows, given = getattr(parameters.rows, name), [one.rows[name] for one in changes]
            merge_rows(name, rows, self._base[name], union, source, given)
        stamp = np.zeros(len(union), np.int64)
        for at, one in zip(places, changes, strict=True):
            stamp[at] = np.maximum(stamp[at], one.rows[STAMP])
        parameters.rows.touched_at[union] = stamp
        for name, before in self._penalties_before().items():
            told = [one.penalties[name] for one in changes]
            if name == SURPRISE:
                parameters.optimizer.surprise[:] = merged_surprise(before, told)
            else:
                penalty = getattr(parameters.optimizer, name)
                penalty[...] = merged_penalties(name, before, told, self._regularization)
        if self.learners > 1:
            forget_last_update(self._shared)
        self._penalties, self._since = self._penalties_now(), clock.position
        parameters.changes += 1
        return len(union)

    def merged(self, changes: Sequence[Changes]) -> Changes:
        """Return the result of merging these changes, with all names, for a process that took no part in the merge."""
        parameters = self._shared.machine.parameters
        own = [
            one.column if one.learner == self.learner else self._peers[one.learner].columns[one.column] for one in changes
        ]
        union: Integers = np.unique(np.concatenate(own)).astype(np.int32)
        kept = {name: getattr(parameters.rows, name)[union] for name in (*self._exchanged(), STAMP)}
        penalties = self._penalties_now()
        if self.learners == 1:  # columns and the last update are the same everywhere
            touches = int(parameters.optimizer.touches[0])
            penalties |= {name: getattr(parameters.optimizer, name)[:touches].copy() for name in ("touched", "sw", "sV")}
            penalties["s0"] = parameters.optimizer.s0.copy()
        return Changes(self.learner, union, kept, *_named(list(enumerate(self._names(union)))), penalties)

    def follow_releases(self) -> None:
        """Note columns that were released, before they are reused: a name that returns starts anew."""
        vocabulary = self._shared.encoder.vocabulary
        if self._release_count != vocabulary.release_count:
            self._release_count, self._had_gaps = vocabulary.release_count, True
            for column, value in enumerate(vocabulary.values_of(0, len(self._based))):
                if value is None:
                    self._based[column] = None

    # Columns and names

    def _exchanged(self) -> list[str]:
        """Return the names of the row arrays in use, without fields, which names tell, and without stamps."""
        return _exchanged(self._shared)

    def _stamped(self, own: bool) -> Integers:
        """Return the columns written to since the last merge: those of users' ids if `own`, otherwise all others."""
        parameters, field = self._shared.machine.parameters, self._shared.encoder.id_field("user")
        rows = parameters.rows
        found = np.flatnonzero(rows.touched_at[: parameters.columns] > self._since).astype(np.int32)
        mine: Integers = found[(rows.field[found] == (-1 if field is None else field)) == own]
        return mine

    def _names(self, columns: Integers) -> list[tuple[int, str]]:
        vocabulary, fields = self._shared.encoder.vocabulary, self._shared.machine.parameters.rows.field[columns].tolist()
        return [(field, str(vocabulary.value(one))) for field, one in zip(fields, columns.tolist(), strict=True)]

    # The base: the state at the last merge

    def _differs(self, columns: Integers) -> NDArray[np.bool_]:
        """Return which columns differ from the last merge; those that were only started do not."""
        rows = self._shared.machine.parameters.rows
        found: NDArray[np.bool_] = rows.w[columns] != self._base["w"][columns]
        for name in self._exchanged():  # in most rows w has changed, so few are left to compare
            rest = np.flatnonzero(~found)
            other = getattr(rows, name)[columns[rest]] != self._base[name][columns[rest]]
            found[rest] = other if other.ndim == 1 else other.any(axis=1)
        return found

    def _base_new(self, columns: Integers) -> None:
        """Set the base of columns that stand for another feature since the last merge to their initial values."""
        machine, vocabulary = self._shared.machine, self._shared.encoder.vocabulary
        parameters, based = machine.parameters, self._based
        self._base = {name: grown(base, parameters.columns) for name, base in self._base.items()}
        self._told = grown(self._told, parameters.columns)
        based += [None] * (parameters.columns - len(based))
        new: dict[int, list[int]] = {}
        # As long as no column was ever released, none of the known ones stands for anything else.
        asked = columns.tolist() if self._had_gaps else range(self._known, parameters.columns)
        self._known = parameters.columns
        for column in asked:
            value = vocabulary.value(column)
            if based[column] is not value:
                based[column], self._told[column] = value, False
                new.setdefault(int(parameters.rows.field[column]), []).append(column)
        for field, group in new.items():
            at = np.array(group, np.int64)
            for base in self._base.values():
                base[at] = 0
            if parameters.optimizer.factored[field]:
                keys = keys_of(machine.seed, vocabulary.fields[field], [str(based[column]) for column in group])
                deviation = machine.hyperparameters.initial_deviation
                _fill_normal(keys, deviation, at, self._base["V"])

    @property
    def _regularization(self) -> int:
        return self._shared.machine.rule.regularization

    def _penalties_now(self) -> dict[str, NDArray[Any]]:
        own = self._shared.machine.parameters.optimizer
        return {name: getattr(own, name).copy() for name in PENALTIES}

    def _penalties_before(self) -> dict[str, NDArray[Any]]:
        """Return the penalties of the last merge; those of fields added since then have their initial values."""
        h, own = self._shared.hyperparameters, self._shared.machine.parameters.optimizer
        first = {"lambda_w": h.linear_penalty, "lambda_V": h.factor_penalty, "penalty_mean_square": 0.0}
        before = dict(self._penalties)
        for name, value in first.items():
            kept, now = before[name], getattr(own, name)
            if kept.shape != now.shape:
                before[name] = np.full(now.shape, value)
                before[name][tuple(map(slice, kept.shape))] = kept
        return before


def adopt(shared: SharedModel, changes: Sequence[Changes], clock: Clock) -> None:
    """Copy the rows, and λ where given, of other learners into a model that does not learn itself."""
    parameters = shared.machine.parameters
    for one in changes:
        columns = _columns_of(shared, one, _Peer(), clock)
        for name in (*_exchanged(shared), STAMP):
            getattr(parameters.rows, name)[columns] = one.rows[name]
        _adopt_penalties(shared, one.penalties)
    parameters.changes += 1


def _adopt_penalties(shared: SharedModel, penalties: Mapping[str, NDArray[Any]]) -> None:
    parameters = shared.machine.parameters
    if "touched" in penalties:
        parameters.make_room(len(penalties["touched"]))
        parameters.optimizer.touches[0] = len(penalties["touched"])
    elif penalties:
        forget_last_update(shared)
    for name, array in penalties.items():
        getattr(parameters.optimizer, name)[: len(array)] = array


def forget_last_update(shared: SharedModel) -> None:
    """Forget the last update, by which the paper's λ is adapted: it differs between learners, so a merge keeps none."""
    own = shared.machine.parameters.optimizer
    own.touches[0], own.s0[0] = 0, 0.0


def _exchanged(shared: SharedModel) -> list[str]:
    return [name for name in shared.machine.parameters.used if name not in ("field", STAMP)]


def _columns_of(shared: SharedModel, changes: Changes, peer: _Peer, clock: Clock) -> Integers:
    """Return the numbers here of another learner's columns; admit the features that are unknown here."""
    vocabulary = shared.encoder.vocabulary
    if peer.release_count != vocabulary.release_count:  # a column here may stand for another feature now
        peer.columns[:] = -1
    peer.columns = grown(peer.columns, int(changes.column.max(initial=-1)) + 1, -1)
    told = changes.column[changes.named]
    names = zip(changes.field.tolist(), texts(changes.value, changes.value_length), strict=True)
    peer.names.update(zip(told.tolist(), names, strict=True))
    peer.columns[told] = -1
    for column in changes.column[peer.columns[changes.column] < 0].tolist():
        peer.columns[column] = vocabulary.admit(*peer.names[column])
    shared.start(clock)
    peer.release_count = vocabulary.release_count
    here: Integers = peer.columns[changes.column]
    return here


def _named(new: Sequence[tuple[int, tuple[int, str]]]) -> tuple[Integers, Integers, Flags, Integers]:
    """Return places, fields and values as arrays."""
    places, fields = np.array([place for place, _ in new], np.int32), np.array([field for _, (field, _) in new], np.int32)
    return places, fields, *joined_texts([value for _, (_, value) in new])
