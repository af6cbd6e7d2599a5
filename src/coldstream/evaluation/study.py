"""Studies: the trials of several methods and seeds on one stream, from which tables, plots and reports are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coldstream.errors import InvalidInput, shown
from coldstream.evaluation.fields_in_use import FieldInUse
from coldstream.evaluation.metrics import Spread, moving_recall
from coldstream.evaluation.prequential import Trial
from coldstream.events.stream import Stream
from coldstream.support.arrays import Doubles


class Facts(NamedTuple):
    """Name and size of a stream: its numbers of events, users and items, and whether items are chosen repeatedly."""

    name: str
    events: int
    users: int
    items: int
    repeats: bool

    @classmethod
    def of(cls, stream: Stream) -> "Facts":
        """Count the events of a stream, and the users and items that its events name."""
        users, items = ({getattr(event, side) for event in stream.events} for side in ("user", "item"))
        return cls(stream.name, len(stream.events), len(users), len(items), stream.repeats)


class Published(NamedTuple):
    """The moving recall and the MPR in percent that a publication reports for a method."""

    recall: Spread
    mpr: Spread


@dataclass(frozen=True, slots=True)
class Study:
    """The trials of methods on a stream, by method and seed. The constructor raises `InvalidInput` if they do not match."""

    stream: Facts
    top: int
    window: int
    trials: Mapping[str, Mapping[int, Trial]]
    published: Mapping[str, Published] = field(default_factory=dict)
    failures: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Reasons of failures, by method and seed."""
    fields: Sequence[FieldInUse] = ()
    """The feature fields that the methods used."""
    warnings: Sequence[str] = ()
    """Reasons to distrust the results, such as leakage of the target."""

    def __post_init__(self) -> None:
        for name in ("top", "window"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be 1 or more, got {shown(getattr(self, name))}")
        lengths: dict[int, set[int]] = {}
        for seeds in self.trials.values():
            for seed, trial in seeds.items():
                lengths.setdefault(seed, set()).add(len(trial.rank))
        if not lengths or not all(self.trials.values()) or any(len(tested) != 1 for tested in lengths.values()):
            given = {seed: sorted(tested) for seed, tested in lengths.items()}
            raise InvalidInput(
                "trials must hold a trial of every method, of one stream for every seed,"
                f" got {shown(given)} tested events by seed"
            )

    @property
    def tested(self) -> int:
        """Smallest number of tested events of any trial; seeds may differ, because each may generate its own stream."""
        return min(len(trial.rank) for seeds in self.trials.values() for trial in seeds.values())

    def recall_curves(self, method: str) -> list[Doubles]:
        """Return recall@N/T over time, one curve per seed."""
        return [moving_recall(trial.rank, self.top, self.window) for trial in self.trials[method].values()]
