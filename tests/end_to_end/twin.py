"""A recommender in the tests' own process that does what a log says, in plain calls, and was never interrupted."""

from collections.abc import Mapping
from typing import Any

from served import Home

from coldstream import Bounds, Event, Recommender
from coldstream.config import Hyperparameters
from coldstream.features.schema import Schema, fields_by_side
from coldstream.runtime.chain import read_chain
from coldstream.storage.store import Saved
from coldstream.storage.view import View
from conftest import bits


class Twin:
    """Follows a log from its first line on."""

    def __init__(self) -> None:
        self.position = 0
        self._recommender: Recommender | None = None
        self._said_by: dict[int, set[str]] = {}

    @property
    def recommender(self) -> Recommender:
        assert self._recommender is not None
        return self._recommender

    def follow(self, lines: Mapping[int, Mapping[str, Any]], until: int) -> "Twin":
        """Do what the lines say that come next, up to a position."""
        for position in range(self.position + 1, until + 1):
            self.do(lines[position])
        return self

    def do(self, line: Mapping[str, Any]) -> None:
        """Do what one line says."""
        self.position += 1
        match line["kind"]:
            case "begin":
                hyperparameters = Hyperparameters.from_document(line["hyperparameters"])
                bounds = Bounds.from_document(line["bounds"])
                self._recommender = Recommender(Schema.from_document(line["schema"]), hyperparameters, line["seed"], bounds)
            case "schema":
                self.recommender.engine.extend(Schema.from_document(line["schema"]))
            case "fields":
                self.recommender.add_fields(fields_by_side(line["fields"]))
            case "event":
                event = Event(line["user"], line["item"], line["time"], line.get("context", {}))
                self.recommender.learn(event, position=self.position)
            case "item":
                self.recommender.put_item(line["id"], line["attributes"])
            case "user":
                self.recommender.put_user(line["id"], line["attributes"])
            case "item-removed":
                self.recommender.remove_item(line["id"])
            case "user-forgotten":
                self.recommender.forget_user(line["id"])
                for people in self._said_by.values():
                    people.discard(line["id"])
            case "values-released":
                assert line["columns"] == self._said_by_nobody()
                self.recommender.engine.release_values(line["columns"])
            case other:
                raise AssertionError(other)
        self._hear(line)

    def _hear(self, line: Mapping[str, Any]) -> None:
        """Remember who said what of themselves and of their context."""
        said = {"event": ("user", "context"), "user": ("id", "attributes")}.get(line["kind"])
        if said is not None:
            person, part = line[said[0]], line.get(said[1], {})
            side = "context" if line["kind"] == "event" else "user"
            for column in self.recommender.inspection.columns(self.recommender.inspection.values_of(side, part)):
                self._said_by.setdefault(column, set()).add(person)

    def _said_by_nobody(self) -> list[int]:
        gone = sorted(column for column, people in self._said_by.items() if not people)
        for column in gone:
            del self._said_by[column]
        return gone

    def is_like(self, store: View, saved: Saved) -> bool:
        """Whether a snapshot holds the same bits."""
        assert saved.position == self.position
        return bits(Recommender.from_state(*read_chain(store, saved)[0])) == bits(self.recommender)


def check_bits(home: Home, twin: Twin | None = None) -> None:
    """The last snapshot is of the last line, and holds what an uninterrupted run knows; `coldstream verify` agrees."""
    with home.look() as store:
        newest = store.snapshots()[0]
        assert newest.position == store.last()
        assert (Twin().follow(home.lines(), newest.position) if twin is None else twin).is_like(store, newest)
    assert "the same, bit by bit" in home.verify()
