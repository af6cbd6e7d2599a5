"""Inspection of what was learned: search by name, nearest features, changes of parameters, and penalties by field.

A search by name is answered in pages, and one page examines a bounded number of names. A comparison with all features is
computed in steps, between which other work can run.
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
    """A place in the list of users that stays valid when users before it are removed. Clients send it back as a text."""

    place: int
    """Number of users before the place."""
    epoch: int
    """Log position from which removed users are counted."""
    departures: int
    """Number of users removed by then."""
    user: str
    """The last user before the place."""

    @classmethod
    def at(cls, users: UserStates, place: int) -> "UserCursor":
        """Return the cursor of a place in the present list."""
        last = next(islice(users, place - 1, place), "") if place else ""
        return cls(place, users.epoch, users.departures, last)

    @classmethod
    def of(cls, text: str) -> "UserCursor":
        """Parse a cursor's `text`, or raise `InvalidInput`."""
        parts = text.split(".", 3)
        if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 17 for part in parts[:3]):
            error = InvalidInput(f"cursor must be one that a page gave, got {shown(text)}; leave it out to begin anew")
            error.field = "cursor"
            raise error
        place, epoch, departures, user = parts
        return cls(int(place), int(epoch), int(departures), user)

    @property
    def text(self) -> str:
        """The cursor as clients receive it."""
        return f"{self.place}.{self.epoch}.{self.departures}.{self.user}"

    def found(self, users: UserStates) -> int:
        """Return the present place. If the cursor's own user was removed too, some users may be listed again."""
        # At worst all removed users were before the place: going back by their number skips no user.
        known = users.epoch == self.epoch and users.departures >= self.departures
        earliest = max(0, self.place - (users.departures - self.departures)) if known else 0
        if self.user not in users:
            return earliest
        start = max(0, earliest - 1)
        for place, user in enumerate(islice(users, start, self.place), start + 1):
            if user == self.user:
                return place
        return earliest  # the user was removed, and added again at the end


MOST_LOOKED_AT = 10_000
"""Most names that one page examines. A long text counts as several: one more for every 64 characters."""

STEP = 8192
"""Features compared in one step."""

FieldValue: TypeAlias = tuple[int, str]
"""Number of a field and one of its values, which may or may not have a column."""


class Found(NamedTuple):
    """A page of search results."""

    names: list[str]
    total: int | None
    """Number of matches in all; None if counting them takes more than one page."""
    next: int | None
    """Place where the next page begins; None after the last page."""


class Near(NamedTuple):
    """A feature and the cosine between its vector and that of the feature asked about."""

    feature: str
    similarity: float


class Change(NamedTuple):
    """A feature and the distance by which its weight and vector have moved."""

    feature: str
    change: float


class Candidate(NamedTuple):
    """A possible match: its place, its name, and the text that is searched, None for a gap."""

    place: int
    name: str
    text: str | None


def named(field: str, value: str) -> str:
    """Return the name of a feature for people: `item.genre=jazz`."""
    return f"{field}={value}" if value else field


def searched(candidates: Iterator[Candidate], text: str, limit: int) -> Found:
    """Find the first `limit` candidates whose text contains `text`, ignoring case, and count all matches."""
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
            if not wanted:  # without a search text, an index gives the total
                return Found(names, None, beyond)
        else:
            names.append(name)
        total += 1
    return Found(names, total, beyond)


class Inspection:
    """Read-only inspection of the model, the catalogue and the users."""

    def __init__(self, shared: SharedModel, users: UserStates, events: int) -> None:
        self._shared, self._users, self._events = shared, users, events
        self._vocabulary = shared.encoder.vocabulary

    # Memory

    @property
    def rows(self) -> int:
        """Number of parameter rows in use, gaps included."""
        return self._shared.machine.parameters.columns

    def rows_to_come(self, first: int, last: int) -> list[NDArray[Any]]:
        """Return the reserved memory of rows that are not in use yet, so that a caller can make it resident."""
        return self._shared.machine.parameters.reserved(first, last)

    # Pages

    def features(self, search: str, limit: int, after: int = 0, field: str | None = None) -> Found:
        """Find features whose names contain a text, of one `field` such as `item.genre` or all; an exact match is first."""
        vocabulary = self._vocabulary
        number = None if field is None else _field(vocabulary, field)
        columns = iter(range(after, len(vocabulary))) if number is None else vocabulary.columns(number, after)
        whole = _column_or_none(vocabulary, search)
        whole = None if whole is None or number not in (None, vocabulary.fields_of(whole, whole + 1)[0]) else whole
        found = _found((_candidate(vocabulary, column) for column in columns), search, limit, after, whole is not None)
        total = vocabulary.features() if number is None else vocabulary.count(number)
        return found if search else found._replace(total=total)

    def items(self, search: str, limit: int, after: int = 0) -> Found:
        """Find items whose id or attributes contain a text, in the order of `Recommender.place`."""
        catalogue = self._shared.catalogue
        places = range(after, len(catalogue.ids))
        listed = (_listed(catalogue.ids[place], place, catalogue.attributes[place], catalogue) for place in places)
        found = _found(listed, search, limit, after, False)
        return found if search else found._replace(total=len(catalogue))

    def users(self, search: str, limit: int, after: int = 0) -> Found:
        """Find users whose id contains a text; an exact match is first."""
        some = enumerate(islice(self._users, after, None), after)
        listed = (Candidate(place, user, user) for place, user in some)
        found = _found(listed, search, limit, after, bool(search) and search in self._users)
        return found if search else found._replace(total=len(self._users))

    def user_cursor(self, place: int) -> str:
        """Return a cursor to a place in the list of users, which stays valid if users before it are removed."""
        return UserCursor.at(self._users, place).text

    def user_place(self, cursor: str) -> int:
        """Return the place that a cursor leads to in the present list."""
        return UserCursor.of(cursor).found(self._users)

    def values(self, field: str, limit: int) -> list[str]:
        """Return the first values of a field such as `item.genre`."""
        vocabulary = self._vocabulary
        columns = islice(vocabulary.columns(_field(vocabulary, field)), limit)
        return [value for column in columns if (value := vocabulary.value(column)) is not None]

    def count(self, field: str) -> int:
        """Return the number of values of a field such as `item.genre`."""
        return self._vocabulary.count(_field(self._vocabulary, field))

    # Features by user

    def given_in_steps(self) -> Steps[set[FieldValue]]:
        """Collect in steps all values of users' attributes and contexts that have a column; newest ones may be missing."""
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
        """Return the values of a user's attributes, or of a context, as given, whether they have a column or not."""
        return self._shared.encoder.given_values(side, given)

    def columns(self, values: Iterable[FieldValue]) -> list[int]:
        """Return the present columns of values; values without one are left out."""
        found = (self._vocabulary.find(number, value) for number, value in values)
        return [column for column in found if column is not None]

    def field_name(self, number: int) -> str:
        """Return the name of a field, such as `user.country`."""
        return self._vocabulary.fields[number]

    # Comparisons

    def nearest(self, feature: str, n: int) -> list[Near]:
        """Return the features nearest to one, by the cosine of their vectors."""
        return finished(self.nearest_in_steps(feature, n))

    def nearest_in_steps(self, feature: str, n: int) -> Steps[list[Near]]:
        """Find in steps the features nearest to one; raise `UnknownId`, or `InvalidInput` if the feature has no vector."""
        column = _column_or_none(self._vocabulary, feature)
        if column is None:
            raise UnknownId(f"feature {shown(feature)} is not known; look for it with a part of its name")
        if not self._shared.machine.parameters.theta.V[column].any():
            raise InvalidInput(f"feature {shown(feature)} has no vector, because it is linear; ask about one that interacts")
        return _nearest(self._shared, column, n)

    def penalties(self) -> dict[str, float]:
        """Return λ by field, of its vectors or, without any, of its weight; an empty dict unless λ adapts per field."""
        return _penalties(self._shared)

    def changes(self) -> "Changes":
        """Copy the present parameters, to compare later ones with them."""
        return finished(self.changes_in_steps())

    def changes_in_steps(self) -> Steps["Changes"]:
        """Copy the parameters in steps, to compare later ones with them."""
        return Changes.copied(self._shared, self._events)

    def changed(self, since: "Changes", n: int) -> list[Change]:
        """Return the features whose parameters moved farthest since a copy."""
        return finished(since.most(self._shared, n))

    def changed_in_steps(self, since: "Changes", n: int) -> Steps[list[Change]]:
        """Find in steps the features whose parameters moved farthest since a copy."""
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
    """Return a page; an exact match, if there is one, is listed first on the first page and on no other.

    Pages of one name keep the order: the page after one with only the exact match could begin where the first one did.
    """
    if not there or limit < 2:
        found = searched(candidates, text, limit)
        return found if after == 0 else found._replace(total=None)  # matches before `after` are not counted here
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
    """Return the column of a feature by name. Names of fields may contain =, so the name is split at each = in turn."""
    ends = [n for n, character in enumerate(feature) if character == "="]
    for field, value in [(feature, ""), *((feature[:end], feature[end + 1 :]) for end in ends)]:
        number = vocabulary.field(field)
        column = None if number is None else vocabulary.find(number, value)
        if column is not None:
            return column
    return None


class _Best:
    """The n largest of many numbers that arrive in pieces; of equal ones, those that arrived first."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._number, self._column = np.zeros(0), np.zeros(0, np.int64)

    def add(self, numbers: NDArray[Any], columns: NDArray[Any]) -> None:
        numbers = np.concatenate([self._number, numbers])
        order = np.argsort(-numbers, kind="stable")[: self._n]
        self._number, self._column = numbers[order], np.concatenate([self._column, columns])[order]

    def named(self, vocabulary: Vocabulary) -> list[tuple[str, float]]:
        """Return the names of the best columns with their numbers, without features that were removed meanwhile."""
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
        cosine = np.where(np.isfinite(cosine), cosine, -1.0)  # a vector of length 0 has no direction
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
    """A copy of the parameters at a moment, to measure how far features have moved since."""

    def __init__(self, columns: int, factors: int, events: int) -> None:
        self.events = events
        self._field = np.full(columns, -1, np.int32)
        self._value: list[str | None] = []
        self._w: Floats = np.empty(columns, np.float32)
        self._V: Floats = np.empty((columns, factors), np.float32)

    @classmethod
    def copied(cls, shared: SharedModel, events: int) -> Steps["Changes"]:
        """Copy the parameters in steps; changes between two steps are included."""
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
        """Find in steps the features that moved farthest. Features added or removed since the copy are not compared."""
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
