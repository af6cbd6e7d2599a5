"""What is known, as far as a log has brought it. A line means the same whether it is new or replayed."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from coldstream.catalogue.ranking import Rank
from coldstream.config import Hyperparameters
from coldstream.errors import Diverged, InvalidSnapshot, StoreDamaged
from coldstream.features.schema import Schema
from coldstream.recommender import Recommender
from coldstream.runtime.live_evaluation import LiveEvaluation
from coldstream.runtime.records import (
    Interaction,
    ItemPut,
    ItemRemoved,
    LogHeader,
    Record,
    SchemaExtended,
    UserForgotten,
    UserPut,
    record_of,
)
from coldstream.snapshot import NOT_WHAT_IT_SHOULD_BE, read_snapshot, write_snapshot
from coldstream.storage.store import Entry, Saved

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""One JSON document and named arrays."""

OWN = "service"
"""Where a snapshot keeps what is not the recommender's: `Recommender.load` reads the same file and passes over it."""

EVALUATION = "examination"
"""The live evaluation's key there: the one that snapshots on disk have."""


class Learner:
    """A recommender, its live evaluation, and the position in the log up to which both know everything."""

    def __init__(self, declared: Schema, recommender: Recommender, evaluation: LiveEvaluation, position: int) -> None:
        self.declared = declared
        """The schema as it was declared last, without what the preset and the stream have added."""
        self.recommender = recommender
        self.evaluation = evaluation
        self.position = position
        self.passed_over: list[Saved] = []
        """Newer snapshots than the one it was loaded from, which cannot be used."""

    @classmethod
    def begun(cls, header: LogHeader, position: int) -> "Learner":
        """A learner that knows nothing yet."""
        declared = Schema.from_document(header.schema)
        hyperparameters = Hyperparameters.from_document(header.hyperparameters)
        return cls(declared, Recommender(declared, hyperparameters, header.seed), LiveEvaluation(), position)

    def test(self, interaction: Interaction) -> list[Rank] | None:
        """Where the item of an event that is about to be learned stands. Changes nothing that is learned."""
        return self.evaluation.test(self.recommender, interaction.event())

    def apply(self, position: int, record: Record, ranks: list[Rank] | None = None) -> None:
        """Do what a line of the log says."""
        recommender = self.recommender
        match record:
            case Interaction():
                self._learn(record, ranks)
            case ItemPut():
                recommender.put_item(record.id, record.attributes)
            case UserPut():
                recommender.put_user(record.id, record.attributes)
            case ItemRemoved():
                recommender.remove_item(record.id)
            case UserForgotten():
                recommender.forget_user(record.id)
            case SchemaExtended():
                self.declared = Schema.from_document(record.schema)
                recommender.extend(self.declared)
            case LogHeader():
                raise StoreDamaged(f"line {position} of the log begins anew; a log begins once, at line 1")
        self.position = position

    def replay(self, entries: Iterable[Entry]) -> int:
        """Do what lines of the log say, one after the other; how many there were."""
        count = 0
        for entry in entries:
            self.apply(entry.position, record_of(entry))
            count += 1
        return count

    def _learn(self, interaction: Interaction, ranks: list[Rank] | None) -> None:
        recommender, event = self.recommender, interaction.event()
        new_user = not recommender.has_past(interaction.user)
        try:
            recommender.learn(event)
        except Diverged:
            # It happened and it is in the log, so it belongs to the user's past, here and in every replay.
            recommender.observe(event)
        self.evaluation.note(new_user, recommender.place(interaction.item), recommender.places(), ranks)

    # What survives

    def state(self) -> State:
        """Everything, in copies of its own."""
        document, arrays = self.recommender.state()
        evaluated, evaluated_arrays = self.evaluation.state()
        own = {"position": self.position, "declared": self.declared.document(), EVALUATION: evaluated}
        return {**document, OWN: own}, arrays | {f"{OWN}.{name}": array for name, array in evaluated_arrays.items()}

    @classmethod
    def load(cls, path: Path) -> "Learner":
        """The learner whose state a snapshot holds."""
        document, arrays = read_snapshot(path)
        recommender = Recommender.from_state(document, arrays)
        try:
            own: Mapping[str, Any] = document[OWN]
            evaluated = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{OWN}.")}
            evaluation = LiveEvaluation.from_state(own[EVALUATION], evaluated)
            return cls(Schema.from_document(own["declared"]), recommender, evaluation, int(own["position"]))
        except NOT_WHAT_IT_SHOULD_BE as error:
            message = f"snapshot {path.name!r} was not taken by a service ({error!r}); use an older one"
            raise InvalidSnapshot(message) from error


def save(path: Path, state: State) -> None:
    """Write a state to a file that `Learner.load` reads."""
    write_snapshot(path, *state)
