"""Recovery: load the newest readable snapshot and replay every log line after it."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

from coldstream.bounds.bounds import Bounds
from coldstream.config import BEFORE, Hyperparameters
from coldstream.errors import (
    Interrupted,
    InvalidInput,
    InvalidSchema,
    InvalidSnapshot,
    StoreDamaged,
    StoreUnavailable,
    shown,
)
from coldstream.features.schema import SIDES, Schema
from coldstream.recommender import Recommender
from coldstream.runtime.learner import Learner
from coldstream.runtime.records import BoundsChanged, LogHeader, Merged, Record, RuleChanged, SchemaExtended, line, record_of
from coldstream.runtime.rule import LEARNING_RULE, check_rule
from coldstream.runtime.team import Hiring
from coldstream.storage.store import Entry, Saved, Store
from coldstream.storage.view import View

log = logging.getLogger(__name__)


_DEFAULTS = Hyperparameters().document()
NO_CHANGES: Mapping[str, Any] = MappingProxyType({})


class ForeignSnapshot(InvalidSnapshot):
    """Raised for a snapshot that belongs to another log."""


class RequestedModel(NamedTuple):
    """The model that the settings ask for. None stands for the value that the store has."""

    schema: Schema | None
    hyperparameters: Hyperparameters | None
    seed: int | None
    bounds: Mapping[str, Any] = NO_CHANGES
    """Memory bounds that replace those of the log, or in a new log the default ones."""
    learners: int = 1
    """The number of parallel learners."""
    hiring: Hiring = Hiring()
    """The factories of a team that learns in place of this process."""


def recovered(store: Store, requested: RequestedModel, unwanted: Callable[[], bool] = lambda: False) -> Learner:
    """Recover the learner of a store in order to write to it, and log the requested changes of the model.

    An empty store is begun with the requested model. A request that contradicts the store raises `InvalidInput` or
    `InvalidSchema`. Recovery may take minutes; once `unwanted` returns True, it raises `Interrupted`.
    """
    _refuse_ahead(store)
    if store.last() == 0:
        _begin(store, requested)
    started = perf_counter()
    learner = newest(store)
    learner.hiring = requested.hiring
    _replay(store, learner, unwanted, started)
    check_requested(requested, learner)
    take_up(store, requested, learner)
    learner.engage()
    return learner


def recovered_again(store: View, before: Learner) -> Learner:
    """Recover the learner of a store with a new team, after the team of the learner `before` was lost."""
    learner = newest(store)
    learner.hiring = before.hiring
    try:
        _replay(store, learner, lambda: False, perf_counter())
        learner.engage()
    except BaseException:
        learner.dismiss()
        raise
    return learner


def followed(store: View, requested: RequestedModel, unwanted: Callable[[], bool] = lambda: False) -> Learner:
    """Recover the learner of a store to which another process writes. Requested changes are checked but not applied.

    Raises `StoreUnavailable` where the log cannot be followed yet or lines were deleted meanwhile; the caller may try again.
    Raises `Interrupted` once `unwanted` returns True.
    """
    _refuse_ahead(store)
    started = perf_counter()
    learner = newest(store)
    learner.hiring = requested.hiring._replace(elsewhere=None)
    check_rule(learner.rule)
    first = learner.position
    _replay(store, learner, unwanted, started)
    if store.base() > first:
        raise StoreUnavailable(f"lines up to {store.base()} were erased or deleted while they were read; try again")
    if learner.rule_since > first:
        raise StoreUnavailable(f"the rule was changed at line {learner.rule_since}, and no snapshot knows it yet; try again")
    check_requested(requested, learner)
    return learner


def _replay(store: View, learner: Learner, unwanted: Callable[[], bool], started: float) -> None:
    first = learner.position
    lines = learner.replay(_while_wanted(store.read(first), unwanted))
    seconds = round(perf_counter() - started, 3)
    log.info("recovered", extra={"snapshot": first, "replayed": lines, "position": learner.position, "seconds": seconds})


def _refuse_ahead(store: View) -> None:
    """Raise `StoreDamaged` if the log ends before a snapshot: new lines would get positions that the snapshot skips."""
    last = store.last()
    ahead = [saved for saved in store.snapshots() if saved.position > last]
    if not ahead:
        return
    names = ", ".join(f"{store.snapshot_name(saved)} up to line {saved.position}" for saved in ahead)
    message = f"the log ({store.log_name()}) ends at line {last}, and snapshots know more ({names})"
    remedy = f"put back the log that belongs to them; or, to go on after line {last} without what was lost, remove them"
    raise StoreDamaged(f"{message}: lines of the log were lost, or one of both is an older copy; {remedy}")


def _while_wanted(entries: Iterable[Entry], unwanted: Callable[[], bool]) -> Iterator[Entry]:
    for number, entry in enumerate(entries):
        if number % 1000 == 0 and unwanted():
            raise Interrupted("the replay was interrupted; nothing is lost, and the next start begins it anew")
        yield entry


def newest(store: View) -> Learner:
    """Load the newest readable snapshot, or make a learner at the beginning of the log where there is none.

    Raises `StoreDamaged` for a snapshot of another log.
    """
    damaged: list[Saved] = []
    for saved in store.snapshots():
        try:
            learner = loaded(store, saved)
        except ForeignSnapshot as error:
            raise StoreDamaged(str(error)) from error
        except InvalidSnapshot as error:
            damaged.append(saved)
            facts = {"snapshot": saved.number, "position": saved.position, "reason": str(error)}
            log.warning("a snapshot is damaged; the one before is used", extra=facts)
        else:
            learner.passed_over = damaged
            return learner
    learner = at_the_beginning(store)
    learner.passed_over = damaged
    return learner


def loaded(store: View, saved: Saved) -> Learner:
    """Load the learner of a snapshot.

    Raises `InvalidSnapshot` where it is damaged or does not fit the log, and `ForeignSnapshot` where it is of another log.
    """
    if saved.position > (last := store.last()):
        raise InvalidSnapshot(f"snapshot {saved.number} is of line {saved.position}, and the log ends at line {last}")
    learner = _read(store, saved)
    if learner.position != saved.position:
        raise InvalidSnapshot(f"snapshot {saved.number} is of line {learner.position}, and should be of {saved.position}")
    if learner.position < store.base():
        raise InvalidSnapshot(
            f"snapshot {saved.number} is from before line {store.base()}, up to which people were erased or lines deleted"
        )
    _check_line(store, saved, learner)
    return learner


def _check_line(store: View, saved: Saved, learner: Learner) -> None:
    """Raise `ForeignSnapshot` if the line noted in a snapshot differs from the log's. Older releases noted none."""
    if learner.line is None:
        return
    position, checksum = learner.line
    found = store.checksum(position)
    if found is None or found == checksum:  # a deleted line has no checksum to compare
        return
    own = f"line {position} has the checksum {found:08x} in the log ({store.log_name()})"
    message = f"{own}, and had {checksum:08x} in that of the snapshot ({store.snapshot_name(saved)})"
    remedy = "put back the log that belongs to it; or, to go on with this log, remove it"
    raise ForeignSnapshot(f"{message}: it is of another log; {remedy}")


def _read(store: View, saved: Saved) -> Learner:
    try:
        return Learner.load(store, saved)
    except InvalidSnapshot:
        raise
    except Exception as error:  # a damaged file may raise any exception
        raise InvalidSnapshot(f"snapshot {saved.number} is damaged ({error!r}); use an older one") from error


def at_the_beginning(store: View) -> Learner:
    """Make a learner from the first line of the log. Raises `StoreDamaged` where lines of the log were erased or deleted."""
    if store.base() > 0:
        message = "no snapshot is whole, and the log alone does not do, because people were erased or lines deleted from it"
        raise StoreDamaged(f"{message} up to line {store.base()}; restore the store from a backup")
    first = next(iter(store.read(0)), None)
    header = None if first is None else record_of(first)
    if first is None or not isinstance(header, LogHeader):
        raise StoreDamaged(f"the log must begin with what it is made from, got {shown(header)}; restore the store")
    return Learner.begun(header, first.position)


def _begin(store: Store, requested: RequestedModel) -> None:
    if requested.schema is None:
        raise InvalidInput("the store is empty, and schema is not set; give --schema FILE.toml to begin")
    hyperparameters = Hyperparameters() if requested.hyperparameters is None else requested.hyperparameters
    bounds = Bounds().with_(**requested.bounds)
    header = LogHeader(
        requested.schema.document(), hyperparameters.document(), requested.seed or 0, bounds.document(), LEARNING_RULE
    )
    Learner.begun(header, 1)  # raises before anything is written if no recommender can be built from it
    store.append([line(header)], 0)


def check_requested(requested: RequestedModel, learner: Learner) -> None:
    """Raise `InvalidInput` or `InvalidSchema` if a requested model contradicts that of the log."""
    recommender = learner.recommender
    if requested.hyperparameters is not None:
        learned, wanted = recommender.hyperparameters.document(), requested.hyperparameters.document()
        younger = {name: old for name, old in BEFORE.items() if learned[name] == old and wanted[name] == _DEFAULTS[name]}
        _require_same("hyperparameter ", learned, wanted | younger)  # logs older than a hyperparameter keep its old value
    if requested.seed is not None:
        _require_same("", {"seed": recommender.seed}, {"seed": requested.seed})
    if requested.schema is not None and requested.schema != learner.declared:
        _refuse_removed(learner.declared, requested.schema)
        recommender.engine.check_extension(requested.schema)
    recommender.engine.check_bounds(_wanted_bounds(requested, recommender))


def take_up(store: Store, requested: RequestedModel, learner: Learner) -> None:
    """Log and apply this release's learning rule and the requested new fields, bounds and number of learners.

    The request must have passed `check_requested`.
    """
    recommender = learner.recommender
    if learner.rule < LEARNING_RULE:
        _write(store, learner, RuleChanged(LEARNING_RULE))
        log.info("the rule was changed", extra={"position": learner.position, "rule": LEARNING_RULE})
    check_rule(learner.rule)
    if requested.schema is not None and requested.schema != learner.declared:
        _write(store, learner, SchemaExtended(requested.schema.document()))
        log.info("the schema was extended", extra={"position": learner.position})
    bounds = _wanted_bounds(requested, recommender)
    if bounds != recommender.bounds:
        before = Counter(recommender.memory.gone)
        _write(store, learner, BoundsChanged(bounds.document()))
        gone = Counter(recommender.memory.gone) - before
        log.info("the bounds were changed", extra={"position": learner.position})
        if gone:
            log.warning("what did not fit into the new bounds had to go", extra={"gone": dict(gone)})
    recommender.engine.check_learners(requested.learners)
    if requested.learners != learner.learners:
        _write(store, learner, Merged(requested.learners))
        log.info("others learn from here on", extra={"position": learner.position, "learners": learner.learners})


def _wanted_bounds(requested: RequestedModel, recommender: Recommender) -> Bounds:
    """Return the log's bounds with the requested changes. A log begun before bounds existed gets the default ones."""
    before = Bounds() if recommender.bounds == Bounds.none() else recommender.bounds
    return before.with_(**requested.bounds)


def _write(store: Store, learner: Learner, record: Record) -> None:
    (position,) = store.append([line(record)], learner.position)
    assert position is not None
    learner.apply(position, record)


def _require_same(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    for name, value in before.items():
        if after[name] != value:
            message = f"{what}{name} is {shown(value)} in the store and {shown(after[name])} in the settings"
            raise InvalidInput(f"{message}; keep what was learned with, or begin in an empty store")


def _refuse_removed(before: Schema, after: Schema) -> None:
    for side in SIDES:
        kept = {field.name for field in getattr(after, side)}
        for field in getattr(before, side):
            if field.name not in kept:
                message = f"{side} field {field.name!r} was declared before and is missing now"
                raise InvalidSchema(f"{message}; declare it again (it need not be filled), or begin in an empty store")
