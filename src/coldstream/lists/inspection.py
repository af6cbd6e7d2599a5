"""Looking at what was learned: features by name, which are alike, which have changed, how strongly fields are held.

What is looked for by name is answered in pages, and one page looks at so many names and no more. What has to be compared
with all features is worked out in steps, between which others get their turn.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coldstream.engine.shared_model import SharedModel
from coldstream.errors import InvalidInput, UnknownId, shown
from coldstream.features.vocabulary import Vocabulary
from coldstream.support.arrays import Floats
from coldstream.support.steps import Steps, finished
from coldstream.users.states import UserStates


class UserCursor(NamedTuple):
    """A place in the list, and who was before it. As a text it is what clients send back."""

    place: int
    """How many users are before it."""
    epoch: int
    """Since when those are counted who went."""
    departures: int
    """How many had gone by then."""
    user: str
    """The last before the place."""

    @classmethod
    def at(cls, users: UserStates, place: int) -> "UserCursor":
        """The cursor of a place, now."""
        last = next(islice(users, place - 1, place), "") if place else ""
        return cls(place, users.epoch, users.departures, last)

    @classmethod
    def of(cls, text: str) -> "UserCursor":
        """The inverse of `text`."""
        parts = text.split(".", 3)
        if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 17 for part in parts[:3]):
            error = InvalidInput(f"cursor must be one that a page gave, got {shown(text)}; leave it out to begin anew")
            error.field = "cursor"
            raise error
        place, epoch, departures, user = parts
        return cls(int(place), int(epoch), int(departures), user)

    @property
    def text(self) -> str:
        """The cursor as clients have it."""
        return f"{self.place}.{self.epoch}.{self.departures}.{self.user}"

    def found(self, users: UserStates) -> int:
        """The place now. Where the user has gone as well, some may come again."""
        # Whoever went was before the place at worst, so nobody is passed over.
        known = users.epoch == self.epoch and users.departures >= self.departures
        earliest = max(0, self.place - (users.departures - self.departures)) if known else 0
        if self.user not in users:
            return earliest
        start = max(0, earliest - 1)
        for place, user in enumerate(islice(users, start, self.place), start + 1):
            if user == self.user:
                return place
        return earliest  # it went, and came again behind all others


MOST_LOOKED_AT = 10_000
"""Names that one page looks at. A long text counts as several: one for every 64 characters."""

STEP = 8192
"""Features that are compared in one step."""

FieldValue: TypeAlias = tuple[int, str]
"""The number of a field and a value of it: what has a column, or had one, or may have one."""


class Found(NamedTuple):
    """A page of those that were looked for."""

    names: list[str]
    total: int | None
    """How many there are in all; None where that would take more than one page to find out."""
    next: int | None
    """Where the next page begins; None where nothing is left."""


class Near(NamedTuple):
    """A feature and the cosine between its vector and the one that was asked about."""

    feature: str
    similarity: float


class Change(NamedTuple):
    """A feature and how far its weight and vector have moved."""

    feature: str
    change: float


class Candidate(NamedTuple):
    """What may be found: its place, its name, and the text that is searched; a gap has none."""

    place: int
    name: str
    text: str | None


def named(field: str, value: str) -> str:
    """A feature as people read it: `item.genre=jazz`."""
    return f"{field}={value}" if value else field


def searched(candidates: Iterator[Candidate], text: str, limit: int) -> Found:
    """The first of the candidates that hold a text, whatever the case, and how many there are among all of these."""
    wanted, names, total, looked = text.casefold(), list[str](), 0, 0
    beyond: int | None = None
    for place, name, own in candidates:
        if looked >= MOST_LOOKED_AT:
            return Found(names, None, place if beyond is None else beyond)
        looked += 1 if own is None else 1 + len(own) // 64
        if own is None or (wanted and wanted not in own.casefold()):
            continue
        if len(names) == limit:
            beyond = place if beyond is None else beyond
            if not wanted:  # whoever looks for nothing in particular is told the total by an index
                return Found(names, None, beyond)
        else:
            names.append(name)
        total += 1
    return Found(names, total, beyond)


class Inspection:
    """A closer look at what is known. It only reads."""

    def __init__(self, shared: SharedModel, users: UserStates, events: int) -> None:
        self._shared, self._users, self._events = shared, users, events
        self._vocabulary = shared.encoder.vocabulary

    # Memory

    @property
    def rows(self) -> int:
        """How many rows of parameters are in use, gaps included."""
        return self._shared.machine.parameters.columns

    def rows_to_come(self, first: int, last: int) -> list[NDArray[Any]]:
        """The memory of rows behind those in use, as far as it is reserved, for whoever sees to it that it is there."""
        return self._shared.machine.parameters.reserved(first, last)

    # Pages

    def features(self, search: str, limit: int, after: int = 0, field: str | None = None) -> Found:
        """Names of features that hold a text, of one field such as `item.genre` or of all; one that is the text is first."""
        vocabulary = self._vocabulary
        number = None if field is None else _field(vocabulary, field)
        columns = iter(range(after, len(vocabulary))) if number is None else vocabulary.columns(number, after)
        whole = _column_or_none(vocabulary, search)
        whole = None if whole is None or number not in (None, vocabulary.fields_of(whole, whole + 1)[0]) else whole
        found = _found((_candidate(vocabulary, column) for column in columns), search, limit, after, whole is not None)
        total = vocabulary.features() if number is None else vocabulary.count(number)
        return found if search else found._replace(total=total)

    def items(self, search: str, limit: int, after: int = 0) -> Found:
        """Ids of items that hold a text in their id or their attributes, in the order of `Recommender.place`."""
        catalogue = self._shared.catalogue
        places = range(after, len(catalogue.ids))
        listed = (_listed(catalogue.ids[place], place, catalogue.attributes[place], catalogue) for place in places)
        found = _found(listed, search, limit, after, False)
        return found if search else found._replace(total=len(catalogue))

    def users(self, search: str, limit: int, after: int = 0) -> Found:
        """Ids of users that hold a text; one that is the text is first."""
        some = enumerate(islice(self._users, after, None), after)
        listed = (Candidate(place, user, user) for place, user in some)
        found = _found(listed, search, limit, after, bool(search) and search in self._users)
        return found if search else found._replace(total=len(self._users))

    def user_cursor(self, place: int) -> str:
        """What leads to a place in the list of users also when some before it have gone."""
        return UserCursor.at(self._users, place).text

    def user_place(self, cursor: str) -> int:
        """Where a cursor leads now."""
        return UserCursor.of(cursor).found(self._users)

    def values(self, field: str, limit: int) -> list[str]:
        """The first values that a field has had, such as `item.genre`."""
        vocabulary = self._vocabulary
        columns = islice(vocabulary.columns(_field(vocabulary, field)), limit)
        return [value for column in columns if (value := vocabulary.value(column)) is not None]

    def count(self, field: str) -> int:
        """How many values a field has had, such as `item.genre`."""
        return self._vocabulary.count(_field(self._vocabulary, field))

    # Who had what

    def given_in_steps(self) -> Steps[set[FieldValue]]:
        """All values of users' attributes and of contexts that have a column. What is new meanwhile may be missing."""
        encoder, found = self._shared.encoder, set[FieldValue]()
        for number in [number for side in ("user", "context") for number in encoder.attribute_fields(side)]:
            first = 0
            while some := list(islice(self._vocabulary.columns(number, first), STEP)):
                values = ((number, self._vocabulary.value(column)) for column in some)
                found.update((number, value) for number, value in values if value is not None)
                first = some[-1] + 1
                yield
        return found

    def values_of(self, side: str, given: Mapping[str, Any]) -> list[FieldValue]:
        """The values of a user's attributes, or of a context, as given, whether they have a column or not."""
        return self._shared.encoder.given_values(side, given)

    def columns(self, values: Iterable[FieldValue]) -> list[int]:
        """The columns that values have now; those that have none are left out."""
        found = (self._vocabulary.find(number, value) for number, value in values)
        return [column for column in found if column is not None]

    def field_name(self, number: int) -> str:
        """The name of a field, such as `user.country`."""
        return self._vocabulary.fields[number]

    # Comparisons

    def nearest(self, feature: str, n: int) -> list[Near]:
        """The features most like one, by the cosine of their vectors."""
        return finished(self.nearest_in_steps(feature, n))

    def nearest_in_steps(self, feature: str, n: int) -> Steps[list[Near]]:
        """The same in steps."""
        column = _column_or_none(self._vocabulary, feature)
        if column is None:
            raise UnknownId(f"feature {shown(feature)} is not known; look for it with a part of its name")
        if not self._shared.machine.parameters.theta.V[column].any():
            raise InvalidInput(f"feature {shown(feature)} has no vector, because it is linear; ask about one that interacts")
        return _nearest(self._shared, column, n)

    def penalties(self) -> dict[str, float]:
        """λ per field where it adapts per field: of the vectors, or of the weight where a field has none. Else nothing."""
        return _penalties(self._shared)

    def changes(self) -> "Changes":
        """The parameters as they are now, to compare with later."""
        return finished(self.changes_in_steps())

    def changes_in_steps(self) -> Steps["Changes"]:
        """The same in steps."""
        return Changes.copied(self._shared, self._events)

    def changed(self, since: "Changes", n: int) -> list[Change]:
        """The features that have moved farthest since then."""
        return finished(since.most(self._shared, n))

    def changed_in_steps(self, since: "Changes", n: int) -> Steps[list[Change]]:
        """The same in steps."""
        return since.most(self._shared, n)


def _candidate(vocabulary: Vocabulary, column: int) -> Candidate:
    owner = vocabulary.owner_or_none(column)
    name = "" if owner is None else named(*owner)
    return Candidate(column, name, None if owner is None else name)


def _listed(item: str, place: int, attributes: Any, live: Any) -> Candidate:
    if item not in live:
        return Candidate(place, item, None)
    return Candidate(place, item, f"{item} {' '.join(map(str, attributes.values()))}" if attributes else item)


def _found(candidates: Iterator[Candidate], text: str, limit: int, after: int, there: bool) -> Found:
    """A page; where something is there that is the text itself, it is the first on the first page and on no other.

    Pages of one stay in order: the page behind one that holds only the text could begin where the first did.
    """
    if not there or limit < 2:
        found = searched(candidates, text, limit)
        return found if after == 0 else found._replace(total=None)  # of those before, nothing is known here
    first = after == 0
    found = searched((one for one in candidates if one.name != text), text, limit - first)
    total = found.total + 1 if first and found.total is not None else None
    return found._replace(names=[text, *found.names] if first else found.names, total=total)


def _field(vocabulary: Vocabulary, name: str) -> int:
    number = vocabulary.field(name)
    if number is None:
        raise UnknownId(f"field {shown(name)} is not known; write the side and the name, such as 'item.genre'")
    return number


def _column_or_none(vocabulary: Vocabulary, feature: str) -> int | None:
    """The column of a feature by its name. Names of fields may hold an = too, so every one of them may be the last."""
    ends = [n for n, character in enumerate(feature) if character == "="]
    for field, value in [(feature, ""), *((feature[:end], feature[end + 1 :]) for end in ends)]:
        number = vocabulary.field(field)
        column = None if number is None else vocabulary.find(number, value)
        if column is not None:
            return column
    return None


class _Best:
    """The best n of many numbers that come piece by piece; of equal ones, those that came first."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._number, self._column = np.zeros(0), np.zeros(0, np.int64)

    def add(self, numbers: NDArray[Any], columns: NDArray[Any]) -> None:
        numbers = np.concatenate([self._number, numbers])
        order = np.argsort(-numbers, kind="stable")[: self._n]
        self._number, self._column = numbers[order], np.concatenate([self._column, columns])[order]

    def named(self, vocabulary: Vocabulary) -> list[tuple[str, float]]:
        """Their names, less those that have gone meanwhile."""
        owners = [vocabulary.owner_or_none(column) for column in self._column.tolist()]
        numbers = self._number.tolist()
        return [(named(*owner), number) for owner, number in zip(owners, numbers, strict=True) if owner is not None]


def _pieces(columns: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + STEP, columns)) for first in range(0, columns, STEP))


def _nearest(shared: SharedModel, column: int, n: int) -> Steps[list[Near]]:
    vocabulary, best = shared.encoder.vocabulary, _Best(n)
    own = shared.machine.parameters.theta.V[column].copy()
    length = np.linalg.norm(own)
    for first, last in _pieces(len(vocabulary)):
        V = shared.machine.parameters.theta.V[first:last]
        with np.errstate(invalid="ignore", divide="ignore"):
            cosine = V @ own / (np.linalg.norm(V, axis=1) * length)
        cosine = np.where(np.isfinite(cosine), cosine, -1.0)  # a vector of no length points nowhere
        used = np.array(vocabulary.fields_of(first, last), np.int32) >= 0
        columns = np.flatnonzero(used) + first
        columns = columns[columns != column]
        best.add(cosine[columns - first], columns)
        yield
    return [Near(*one) for one in best.named(vocabulary)]


def _penalties(shared: SharedModel) -> dict[str, float]:
    if shared.hyperparameters.regularization != "per-field":
        return {}
    state = shared.machine.parameters.optimizer
    has_vectors = state.factored if state.lambda_V.shape[1] else np.zeros_like(state.factored)
    return {
        name: float(state.lambda_V[number].mean() if has_vectors[number] else state.lambda_w[number])
        for number, name in enumerate(shared.encoder.vocabulary.fields)
    }


class Changes:
    """How far features have moved since a moment: a copy of the parameters of then."""

    def __init__(self, columns: int, factors: int, events: int) -> None:
        self.events = events
        self._field = np.full(columns, -1, np.int32)
        self._value: list[str | None] = []
        self._w: Floats = np.empty(columns, np.float32)
        self._V: Floats = np.empty((columns, factors), np.float32)

    @classmethod
    def copied(cls, shared: SharedModel, events: int) -> Steps["Changes"]:
        """The parameters as they are now, or come to be between two steps."""
        vocabulary, factors = shared.encoder.vocabulary, shared.machine.parameters.theta.V.shape[1]
        changes = cls(len(vocabulary), factors, events)
        for first, last in _pieces(len(vocabulary)):
            theta = shared.machine.parameters.theta
            changes._field[first:last] = vocabulary.fields_of(first, last)
            changes._value += vocabulary.values_of(first, last)
            changes._w[first:last], changes._V[first:last] = theta.w[first:last], theta.V[first:last]
            yield
        return changes

    def most(self, shared: SharedModel, n: int) -> Steps[list[Change]]:
        """The features that have moved farthest. Those that came or went since are not compared."""
        vocabulary, best = shared.encoder.vocabulary, _Best(n)
        for first, last in _pieces(len(self._value)):
            theta, own = shared.machine.parameters.theta, slice(first, last)
            moved = np.sqrt((theta.w[own] - self._w[own]) ** 2 + ((theta.V[own] - self._V[own]) ** 2).sum(axis=1))
            same = np.array(vocabulary.fields_of(first, last), np.int32) == self._field[own]
            values = zip(vocabulary.values_of(first, last), self._value[own], strict=True)
            same &= np.array([now is not None and now == then for now, then in values], np.bool_)
            places = np.flatnonzero(same & (moved > 0))
            best.add(moved[places], places + first)
            yield
        return [Change(*one) for one in best.named(vocabulary)]
