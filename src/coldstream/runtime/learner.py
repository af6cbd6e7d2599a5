"""The learner: the state that a log leads to, up to a position. A line has the same effect whether it is new or replayed."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from coldstream.bounds.bounds import Bounds
from coldstream.config import Hyperparameters
from coldstream.errors import Diverged, InvalidInput, InvalidSnapshot, StoreUnavailable
from coldstream.events.event import Event
from coldstream.features.schema import Schema
from coldstream.recommender import Recommender
from coldstream.runtime.chain import Chain, made_of_chain
from coldstream.runtime.live_evaluation import LiveEvaluation
from coldstream.runtime.records import Evicted, Interaction, LogHeader, Record, record_of
from coldstream.runtime.rule import LEARNING_RULE
from coldstream.runtime.team import Hiring, Team
from coldstream.scoring.ranking import Rank
from coldstream.snapshots.archive import NOT_WHAT_IT_SHOULD_BE, write_snapshot
from coldstream.snapshots.increments import State
from coldstream.storage.store import Entry, Saved
from coldstream.storage.view import View

log = logging.getLogger(__name__)

OWN = "service"
"""The key of a snapshot under which the service keeps its own state; `Recommender.load` ignores it."""

LONGEST_PIECE = 4096
"""The largest number of lines of one kind that are replayed in one call."""

EVALUATION = "examination"
"""The key of the live evaluation within `OWN`. The value is that of snapshots on disk, and must not change."""

CURVES = "curves"
"""The key of the status page's curves within `OWN`."""

RULE = "rule"
"""The key of the learning rule within `OWN`; a snapshot without it was learned by rule 1."""


LEARNERS = "learners"
"""The key of the number of learners within `OWN`; a snapshot without it has one learner."""

LINE = "line"
"""The key within `OWN` of a log line's position and checksum, which identify the snapshot's log."""


class KnownLine(NamedTuple):
    """The position and the checksum of a log line that was learned."""

    position: int
    checksum: int


class Learner:
    """A recommender, its live evaluation, and the log position up to which both have processed every line."""

    def __init__(self, declared: Schema, recommender: Recommender, evaluation: LiveEvaluation, position: int) -> None:
        self.declared = declared
        """The schema as last declared, without the fields that the preset or events have added."""
        self.recommender = recommender
        self.evaluation = evaluation
        self.position = position
        self.line: KnownLine | None = None
        """A recent line, by which a snapshot identifies its log; None where its checksum was not read."""
        self.rule = LEARNING_RULE
        """The learning rule that applies at the present position."""
        self.rule_since = 0
        """The position of the line that set `rule`; 0 if none was read since the learner was begun or loaded."""
        self.curves: Callable[[], str] = str
        """A function that returns the status page's curves as a text for snapshots. Learning does not depend on it."""
        self.passed_over: list[Saved] = []
        """Snapshots that cannot be used and are newer than the one from which the learner was loaded."""
        self.chain: Chain | None = None
        """The chain of snapshots from which the learner was loaded, on which the next increment can build."""
        self.learners = 1
        """The number of parallel learners at the present position of the log."""
        self.hiring = Hiring()
        """The factories of a team that learns in place of this process."""
        self.team: Team | None = None
        """The team that learns while this process only observes events; None where this process learns itself."""
        self.unmerged = 0
        """The number of events since the last merge that only the team has learned; 0 without a team."""
        self.is_waited_for = False
        """Whether a caller of `settled` waits for the next merge."""
        self._merged, self._abandoned = asyncio.Event(), False

    @classmethod
    def begun(cls, header: LogHeader, position: int) -> "Learner":
        """Make an empty learner from the first line of a log."""
        declared = Schema.from_document(header.schema)
        hyperparameters = Hyperparameters.from_document(header.hyperparameters)
        bounds = Bounds.none() if header.bounds is None else Bounds.from_document(header.bounds)
        learner = cls(declared, Recommender(declared, hyperparameters, header.seed, bounds), LiveEvaluation(), position)
        learner.rule = header.rule
        return learner

    def test(self, interaction: Interaction) -> list[Rank] | None:
        """Return the ranks of an event's item before the event is learned, as `LiveEvaluation.test` does."""
        return self.evaluation.test(self.recommender, interaction.event())

    def apply(self, position: int, record: Record, ranks: list[Rank] | None = None) -> None:
        """Apply the record of one log line. `ranks` are those that `test` returned for it, where it was called."""
        record.meet_team(self)
        if self.team is not None:
            self.team.send([(position, record)])
        record.apply(self, position, ranks)
        self.position = position

    def replay(self, entries: Iterable[Entry]) -> int:
        """Apply log entries with the same effect as one by one, and return their number."""
        return self.apply_all((entry.position, record_of(entry)) for entry in entries)

    def apply_all(self, lines: Iterable[tuple[int, Record]]) -> int:
        """Apply records, given with their positions, with the same effect as one by one, and return their number."""
        count = 0
        for kind, group in groupby(lines, lambda line: type(line[1])):
            while piece := list(islice(group, LONGEST_PIECE)):
                self._apply_alike(kind, piece)
                count += len(piece)
        return count

    def _apply_alike(self, kind: type[Record], lines: list[tuple[int, Any]]) -> None:

        if not kind.applied_together:
            for position, record in lines:
                self.apply(position, record)
            return
        self.engage()
        if self.team is not None:
            self.team.send(lines)
        kind.apply_all(self, lines)
        self.position = lines[-1][0]

    # Learning by a team

    @property
    def has_team(self) -> bool:
        """Whether the log is learned by a team, in this process or in others."""
        return self.hiring.elsewhere is not None or self.learners > 1

    def engage(self) -> None:
        """Start the team if the log is learned by one and it is not running; this may take seconds.

        Raises `InvalidInput` where the log has several learners and there is no way to make a team.
        """
        if self.team is not None or not self.has_team:
            return
        hire = self.hiring.elsewhere or self.hiring.here
        if hire is None:
            message = f"behind line {self.position} the log has {self.learners} learners, and only one can learn here"
            raise InvalidInput(f"{message}; read it with the coldstream command")
        self.team = hire(self.recommender, self.learners)

    def merge(self, learners: int) -> None:
        """Take over what the team has learned, evict what is due, and continue with `learners` parallel learners."""
        if self.team is not None:
            self.team.merge()
        gone = self.recommender.engine.let_go()
        if self.team is not None and any(gone):
            self.team.send([(self.position, Evicted(tuple(gone.users), tuple(gone.items), tuple(gone.values)))])
        if learners != self.learners:
            self.dismiss()
            self.recommender.engine.follow_learners(learners)
        self.learners, self.unmerged, self.is_waited_for = learners, 0, False
        self._merged.set()

    def gather(self) -> None:
        """Merge what the team has learned, and dismiss it; do nothing without a team."""
        if self.team is not None:
            self.merge(self.learners)
            self.dismiss()

    def dismiss(self) -> None:
        """Stop the team. What it has learned since the last merge is lost in memory, but the log has its events."""
        if self.team is not None:
            self.team.close()
            self.team = None

    def abandon(self) -> None:
        """Give this learner up after its team was lost: `settled` then raises, and requests are still answered."""
        self.dismiss()
        self._abandoned = True
        self._merged.set()

    async def settled(self) -> None:
        """Wait until the team's learning is merged, since a snapshot can only be taken then.

        Raises `StoreUnavailable` where the team was lost.
        """
        while self.unmerged:
            if self._abandoned:
                raise StoreUnavailable("those who learned were lost, and others begin again; try again later")
            self.is_waited_for = True
            self._merged.clear()
            await self._merged.wait()

    def learn_all(self, lines: list[tuple[int, Interaction]]) -> None:
        """Learn events that were not ranked before, each with its position, in one call."""
        recommender, new_users, came = self.recommender, [], set[str]()
        for _, interaction in lines:
            new_users.append(interaction.user not in came and not recommender.engine.has_past(interaction.user))
            came.add(interaction.user)
        try:
            events = [(position, interaction.event()) for position, interaction in lines]
            if self.team is None:
                places = recommender.engine.replay(events)
            else:
                self.unmerged += len(events)
                places = recommender.engine.replay_observed(events)
        except InvalidInput:  # one line is invalid; one by one, each is learned as far as possible
            for position, interaction in lines:
                self.learn(position, interaction, None)
            return
        effect_of = recommender.schema.effect_of
        self.evaluation.note_unranked(new_users, places, [bool(effect_of(own.feedback).trends) for _, own in lines])

    def learn(self, position: int, interaction: Interaction, ranks: list[Rank] | None) -> None:
        """Learn one event, or only observe it where a team learns or its update diverged, and note its ranks."""
        recommender, event = self.recommender, interaction.event()
        new_user = not recommender.engine.has_past(interaction.user)
        try:
            if self.team is None:
                recommender.learn(event, position=position)
            else:
                self.unmerged += 1
                recommender.observe(event, position=position)
        except Diverged:
            # The update is skipped, but the event is in the log, so it belongs to the user's history in every replay.
            recommender.observe(event, position=position)
        except InvalidInput:
            # Records are checked before they are written. If an invalid one is in the log all the same, it must not keep the
            # service from starting. What can be invalid is the context, or the item, which may have been evicted meanwhile.
            log.error("a line of the log is learned without its context, which is refused", extra={"position": position})
            event = Event(interaction.user, interaction.item, interaction.time)
            if not recommender.has_item(event.item):
                recommender.put_item(event.item)
            recommender.learn(event, position=position)
        counted = bool(recommender.schema.effect_of(event.kind).trends)
        self.evaluation.note(new_user, recommender.engine.place(interaction.item), ranks, counted)

    # State

    def view(self) -> State:
        """Return the whole state without copying it. The view is valid until the learner changes."""
        assert not self.unmerged, "what others have learned is known here"
        document, arrays = self.recommender.engine.view()
        evaluated, evaluated_arrays = self.evaluation.state()
        own = {"position": self.position, "declared": self.declared.document(), EVALUATION: evaluated, CURVES: self.curves()}
        if self.line is not None:
            own[LINE] = list(self.line)
        own[RULE] = self.rule
        if self.learners > 1:
            own[LEARNERS] = self.learners
        return {**document, OWN: own}, arrays | {f"{OWN}.{name}": array for name, array in evaluated_arrays.items()}

    @classmethod
    def load(cls, store: View, saved: Saved) -> "Learner":
        """Load the learner of a snapshot, or raise `InvalidSnapshot`."""
        ((document, arrays), recommender), chain = made_of_chain(store, saved, _restored)
        try:
            own: Mapping[str, Any] = document[OWN]
            evaluated = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{OWN}.")}
            evaluation = LiveEvaluation.from_state(own[EVALUATION], evaluated)
            learner = cls(Schema.from_document(own["declared"]), recommender, evaluation, int(own["position"]))
            curves, learner.rule = str(own.get(CURVES, "")), int(own.get(RULE, 1))
            learner.learners = int(own.get(LEARNERS, 1))
            recommender.engine.follow_learners(learner.learners)
            learner.line = KnownLine(*map(int, own[LINE])) if LINE in own else None
        except NOT_WHAT_IT_SHOULD_BE as error:
            message = f"snapshot {saved.number} was not taken by a service ({error!r}); use an older one"
            raise InvalidSnapshot(message) from error
        learner.curves = lambda: curves
        learner.chain = chain
        return learner


def _restored(state: State) -> tuple[State, Recommender]:
    return state, Recommender.from_state(*state)


def save(path: Path, state: State) -> None:
    """Write a state to a file that a store can save as a full snapshot."""
    write_snapshot(path, *state)
