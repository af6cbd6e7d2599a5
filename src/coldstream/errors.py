"""Every error that coldstream raises on purpose. Each message names the field, the value and the remedy."""

from reprlib import Repr

_repr = Repr()
_repr.maxstring = _repr.maxother = 80


def shown(value: object) -> str:
    """A value as an error message shows it: its repr, cut to a readable length."""
    try:
        return _repr.repr(value)
    except ValueError:  # Python refuses to write whole numbers of thousands of digits
        return f"a {type(value).__name__} too long to show"


class ColdstreamError(Exception):
    """The base of all of them: `except ColdstreamError` catches what coldstream refuses and nothing else."""


class InvalidInput(ColdstreamError, ValueError):
    """A record, an argument or a hyperparameter that cannot be used. Nothing was changed."""

    field: str | None = None
    """Which part of a record it is about, where that is known: `context.device`, `attributes.price`."""


class MisreadFile(InvalidInput):
    """A file that is not what it was taken for. An argument says it otherwise, or on the command line an option."""

    def __init__(self, problem: str, advice: str, argument: str, value: str) -> None:
        super().__init__(problem, advice, argument, value)  # what it is made from again in another process
        self.problem, self.advice, self.argument, self.value = problem, advice, argument, value

    def __str__(self) -> str:
        given = f"{{{self.value!r}: …}}" if self.argument == "columns" else repr(self.value)
        return f"{self.problem}; {self.advice} with {self.argument}={given}"


class InvalidSchema(InvalidInput):
    """A schema that contradicts itself or names a kind that does not exist."""


class UnknownId(ColdstreamError, LookupError):
    """An item or a user that is not there."""


class Diverged(ColdstreamError, ArithmeticError):
    """An update would have written a number that is not finite. The update was not applied."""


class Unavailable(ColdstreamError):
    """A data set that is not here, cannot be fetched, or is not what it should be. Nothing was changed."""


class Interrupted(ColdstreamError):
    """Work that did not come to its end: a process was killed, most likely because memory ran out, or nobody wants it."""


class InvalidSnapshot(ColdstreamError):
    """A file that is not a whole coldstream snapshot of a version that this release reads."""


class StoreUnavailable(ColdstreamError):
    """The disk or the database server does not do its work now. Nothing is lost, and it may be tried again."""


class StoreFull(StoreUnavailable):
    """There is no room on the disk."""


class StoreDamaged(ColdstreamError):
    """A log or snapshots that cannot be what was once written. Nothing was changed."""


class StoreInUse(ColdstreamError):
    """A store that another process writes to."""


class StoreMovedOn(StoreUnavailable):
    """A log that has gone on without whoever wants to write. Nothing was written: what is new has to be read first."""
