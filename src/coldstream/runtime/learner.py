"""What is known, as far as a log has brought it. A line means the same whether it is new or replayed."""

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
"""Where a snapshot keeps what is not the recommender's: `Recommender.load` reads the same file and passes over it."""

LONGEST_PIECE = 4096
"""Lines of one kind that are replayed in one go."""

EVALUATION = "examination"
"""The live evaluation's key there: the one that snapshots on disk have."""

CURVES = "curves"
"""The key there of the page's curves."""

RULE = "rule"
"""The key there of the rule it was learned by; the first, where there is none."""


LEARNERS = "learners"
"""The key there of how many learn; one, where there is none."""

LINE = "line"
"""The key there of a line of the log and its checksum: which log a snapshot is of."""


class KnownLine(NamedTuple):
    """A line of the log that was learned."""

    position: int
    checksum: int


class Learner:
    """A recommender, its live evaluation, and the position in the log up to which both know everything."""

    def __init__(self, declared: Schema, recommender: Recommender, evaluation: LiveEvaluation, position: int) -> None:
        self.declared = declared
        """The schema as it was declared last, without what the preset and the stream have added."""
        self.recommender = recommender
        self.evaluation = evaluation
        self.position = position
        self.line: KnownLine | None = None
        """One of the last lines that it knows, which tells of a snapshot whose it is; None where that was not found out."""
        self.rule = LEARNING_RULE
        """By which rule the log is learned where it has come to."""
        self.rule_since = 0
        """The line that said so, where it was read since the learner was begun or loaded."""
        self.curves: Callable[[], str] = str
        """The page's curves, as a text that snapshots carry. Nothing here reads it, and nothing learned depends on it."""
        self.passed_over: list[Saved] = []
        """Newer snapshots than the one it was loaded from, which cannot be used."""
        self.chain: Chain | None = None
        """What it was loaded from: the next increment can build on that."""
        self.learners = 1
        """How many learn the log where it has come to."""
        self.hiring = Hiring()
        """Makes those who learn in place of this process."""
        self.team: Team | None = None
        """Those who learn, where this process only observes."""
        self.unmerged = 0
        """Events since the last merge, where there is a team: what they taught is not known here yet."""
        self.is_waited_for = False
        """Whether somebody waits for the next merge."""
        self._merged, self._abandoned = asyncio.Event(), False

    @classmethod
    def begun(cls, header: LogHeader, position: int) -> "Learner":
        """A learner that knows nothing yet."""
        declared = Schema.from_document(header.schema)
        hyperparameters = Hyperparameters.from_document(header.hyperparameters)
        bounds = Bounds.none() if header.bounds is None else Bounds.from_document(header.bounds)
        learner = cls(declared, Recommender(declared, hyperparameters, header.seed, bounds), LiveEvaluation(), position)
        learner.rule = header.rule
        return learner

    def test(self, interaction: Interaction) -> list[Rank] | None:
        """Where the item of an event that is about to be learned stands. Changes nothing that is learned."""
        return self.evaluation.test(self.recommender, interaction.event())

    def apply(self, position: int, record: Record, ranks: list[Rank] | None = None) -> None:
        """Do what a line of the log says."""
        record.meet_team(self)
        if self.team is not None:
            self.team.send([(position, record)])
        record.apply(self, position, ranks)
        self.position = position

    def replay(self, entries: Iterable[Entry]) -> int:
        """Do what lines of the log say, as if one after the other; how many there were."""
        return self.apply_all((entry.position, record_of(entry)) for entry in entries)

    def apply_all(self, lines: Iterable[tuple[int, Record]]) -> int:
        """Do what records say, each with its position, as if one after the other; how many there were."""
        count = 0
        for kind, group in groupby(lines, lambda line: type(line[1])):
            while piece := list(islice(group, LONGEST_PIECE)):
                self._apply_alike(kind, piece)
                count += len(piece)
        return count

    def _apply_alike(self, kind: type[Record], lines: list[tuple[int, Any]]) -> None:
        """Apply several records of one kind."""
        if not kind.applied_together:
            for position, record in lines:
                self.apply(position, record)
            return
        self.engage()
        if self.team is not None:
            self.team.send(lines)
        kind.apply_all(self, lines)
        self.position = lines[-1][0]

    # Where others learn

    @property
    def has_team(self) -> bool:
        """Whether others learn, here or elsewhere."""
        return self.hiring.elsewhere is not None or self.learners > 1

    def engage(self) -> None:
        """Find those who learn, where others do; it may take seconds."""
        if self.team is not None or not self.has_team:
            return
        hire = self.hiring.elsewhere or self.hiring.here
        if hire is None:
            message = f"behind line {self.position} the log has {self.learners} learners, and only one can learn here"
            raise InvalidInput(f"{message}; read it with the coldstream command")
        self.team = hire(self.recommender, self.learners)

    def merge(self, learners: int) -> None:
        """Take over what was learned, let go what has to go, and go on with so many learners."""
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
        """Merge what a team has learned and dismiss it; without one, do nothing."""
        if self.team is not None:
            self.merge(self.learners)
            self.dismiss()

    def dismiss(self) -> None:
        """Let those who learn go. What they have not told is lost here, and not in the log."""
        if self.team is not None:
            self.team.close()
            self.team = None

    def abandon(self) -> None:
        """Give up: those who learned are lost, and another takes its place. It still answers."""
        self.dismiss()
        self._abandoned = True
        self._merged.set()

    async def settled(self) -> None:
        """Wait until all that was learned is known here: there is no other moment to take a snapshot at."""
        while self.unmerged:
            if self._abandoned:
                raise StoreUnavailable("those who learned were lost, and others begin again; try again later")
            self.is_waited_for = True
            self._merged.clear()
            await self._merged.wait()

    def learn_all(self, lines: list[tuple[int, Interaction]]) -> None:
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
        except InvalidInput:  # one of them is a line that should not be there; alone, each is taken as far as it can be
            for position, interaction in lines:
                self.learn(position, interaction, None)
            return
        effect_of = recommender.schema.effect_of
        self.evaluation.note_unranked(new_users, places, [bool(effect_of(own.feedback).trends) for _, own in lines])

    def learn(self, position: int, interaction: Interaction, ranks: list[Rank] | None) -> None:
        recommender, event = self.recommender, interaction.event()
        new_user = not recommender.engine.has_past(interaction.user)
        try:
            if self.team is None:
                recommender.learn(event, position=position)
            else:
                self.unmerged += 1
                recommender.observe(event, position=position)
        except Diverged:
            # It happened and it is in the log, so it belongs to the user's past, here and in every replay.
            recommender.observe(event, position=position)
        except InvalidInput:
            # Nothing is written that would be refused; should it be there all the same, a log must not end the service for
            # good. What cannot be understood is its context, or its item, which had to go before the line was learned.
            log.error("a line of the log is learned without its context, which is refused", extra={"position": position})
            event = Event(interaction.user, interaction.item, interaction.time)
            if not recommender.has_item(event.item):
                recommender.put_item(event.item)
            recommender.learn(event, position=position)
        counted = bool(recommender.schema.effect_of(event.kind).trends)
        self.evaluation.note(new_user, recommender.engine.place(interaction.item), ranks, counted)

    # What survives

    def view(self) -> State:
        """Everything, to be read at once: it holds until anything changes."""
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
        """The learner whose state a snapshot of a store stands for."""
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
    """Write a state to a file that a store can take over."""
    write_snapshot(path, *state)
