"""Snapshots that nobody's `save` wrote, from an attacker's hour: refused with one clear error, before they cost anything."""

import json
import math
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coldstream import (
    Bounds,
    Categories,
    Category,
    Event,
    FactorizationMachine,
    Id,
    InvalidSnapshot,
    LastAttribute,
    LastItem,
    Recommender,
    Schema,
)
from coldstream.snapshots.archive import read_snapshot, write_snapshot
from coldstream.support.ragged import joined, parted
from coldstream.users.packed import _HEADER

Arrays = dict[str, Any]
Damage = Callable[[dict[str, Any], Arrays], None]


def shop() -> Recommender:
    schema = Schema(
        user=[Id(), Category("land")],
        item=[Id(), Categories("genre")],
        context=[LastItem(), LastAttribute("last_genre", of="genre")],
    )
    own = Recommender(schema, seed=1, factors=4)
    own.put_users((f"u{n}", {"land": f"l{n % 2}"}) for n in range(3))
    own.put_items((f"i{n}", {"genre": [f"g{n % 3}"]}) for n in range(6))
    own.learn([Event(f"u{n % 3}", f"i{n % 6}") for n in range(20)])
    return own


def of_user(number: int, text: bytes) -> Damage:
    """What JSON says of a user is something else."""

    def change(_: dict[str, Any], arrays: Arrays) -> None:
        parts = parted(arrays["users.user"], arrays["users.user_length"])
        own = parts[number]
        assert own is not None
        _time, _as_of, recent, seen = _HEADER.unpack_from(own)
        parts[number] = own[: _HEADER.size + 4 * (recent + seen // 2 * (1 + seen % 2))] + text
        arrays["users.user"], arrays["users.user_length"] = joined(parts)

    return change


def of_item(text: bytes) -> Damage:
    def change(_: dict[str, Any], arrays: Arrays) -> None:
        parts = parted(arrays["catalogue.note"], arrays["catalogue.note_length"])
        parts[0] = text
        arrays["catalogue.note"], arrays["catalogue.note_length"] = joined(parts)

    return change


def all_of(*damages: Damage) -> Damage:
    def change(document: dict[str, Any], arrays: Arrays) -> None:
        for damage in damages:
            damage(document, arrays)

    return change


def said(*path: str, value: Any) -> Damage:
    """Another value in the document."""

    def change(document: dict[str, Any], _: Arrays) -> None:
        for name in path[:-1]:
            document = document[name]
        document[path[-1]] = value

    return change


def held(name: str, array: np.ndarray) -> Damage:
    def change(_: dict[str, Any], arrays: Arrays) -> None:
        arrays[name] = array

    return change


def text(content: str) -> np.ndarray:
    return np.frombuffer(content.encode(), np.uint8)


def gaps(_: dict[str, Any], arrays: Arrays) -> None:
    """All columns stand for nothing."""
    for name, none in (("vocabulary.field", -1), ("vocabulary.value_length", -1)):
        arrays[name] = np.full(len(arrays[name]), none, np.int32)
    arrays["vocabulary.value"] = np.zeros(0, np.uint8)


def gaps_of(field: str) -> Damage:
    """The columns of one field stand for nothing."""

    def change(document: dict[str, Any], arrays: Arrays) -> None:
        own = arrays["vocabulary.field"] == document["fields"].index(field)
        values = parted(arrays["vocabulary.value"], arrays["vocabulary.value_length"])
        values = [None if gone else value for gone, value in zip(own, values, strict=True)]
        arrays["vocabulary.value"], arrays["vocabulary.value_length"] = joined(values)
        arrays["vocabulary.field"] = np.where(own, -1, arrays["vocabulary.field"]).astype(np.int32)

    return change


def foreign(document: dict[str, Any], arrays: Arrays) -> None:
    """An item has the id of a user."""
    users = np.flatnonzero(arrays["vocabulary.field"] == document["fields"].index("user.id"))
    arrays["catalogue.id_column"] = arrays["catalogue.id_column"].copy()
    arrays["catalogue.id_column"][0] = users[0]


HOSTILE: dict[str, Damage] = {
    "a user nested deeply": of_user(0, b'[{"land":' + b"[" * 100_000 + b"]" * 100_000 + b"},[]]"),
    "an item nested deeply": of_item(b'[{"genre":' + b"[" * 5000 + b"]" * 5000 + b"},[]]"),
    "sessions nested deeply": held("users.sessions", text('{"u1":' + "[" * 100_000 + "]" * 100_000 + "}")),
    "sessions that are no texts": held("users.sessions", text('{"u1":[7]}')),
    "a session that is half a character": held("users.sessions", text('{"u1":["\\ud800"]}')),
    "a number that is none": held("users.sessions", text('{"u1":NaN}')),
    "one document over two users": all_of(of_user(0, b"[{}"), of_user(1, b"[]]"), of_user(2, b"[{},[]],[{},[]]")),
    "a last item of no field": of_user(0, b'[{},[[99,"x",1.0]]]'),
    "a last item of a field that is a text": of_user(0, b'[{},[["a","x",1.0]]]'),
    "a last item whose value is a list": of_user(0, b'[{},[[1,["x"],1.0]]]'),
    "a last item whose weight is a text": of_user(0, b'[{},[[1,"x","x"]]]'),
    "a last item without a weight": of_user(0, b'[{},["ab"]]'),
    "an item's note of no field": of_item(b'[{},[[-1,"x",1.0]]]'),
    "arrivals that are a text": said("catalogue", "arrivals", value="x"),
    "out of order by nothing": said("catalogue", "out_of_order", value=None),
    "freed for ever": said("catalogue", "freed", value=2**70),
    "more events than can be counted": said("events", value=10**30),
    "a position at the end of all": said("position", value=2**63 - 1),
    "a time without end": said("time", value=math.inf),
    "what is gone is a list": said("gone", value={"items evicted": []}),
    "fields that nobody holds": all_of(
        held("model.factored", np.ones(40_000, np.uint8)), said("hyperparameters", "factors", value=10_000)
    ),
    "an attribute of a user that the schema does not know": of_user(0, b'[{"colour":"red"},[]]'),
    "an attribute of a user that is of another kind": of_user(0, b'[{"land":["l1"]},[]]'),
    "an attribute of an item that the schema does not know": of_item(b'[{"colour":"red"},[]]'),
    "an attribute of an item that is of another kind": of_item(b'[{"genre":"g1"},[]]'),
    "gaps under live items": gaps,
    "gaps under what live items have": gaps_of("item.genre"),
    "items that have columns of users": foreign,
    "more partners than there are entries": held("catalogue.partners", np.full(3_000_000, 256, np.int32)),
}


@pytest.mark.parametrize("damage", HOSTILE.values(), ids=HOSTILE)
def test_what_cannot_be_is_refused_at_once(damage: Damage) -> None:
    document, arrays = json.loads(json.dumps(shop().state()[0])), shop().state()[1]
    Recommender.from_state(document, arrays)
    damage(document, arrays)
    began = time.process_time()
    with pytest.raises(InvalidSnapshot, match="this does not hold a recommender"):
        Recommender.from_state(document, arrays)
    assert time.process_time() - began < 5  # it is a hundredth of that; what was found took minutes


@pytest.mark.parametrize("header", [{}, *({"document": own} for own in ([], None, "x", {"x": "\ud800"}))])
@pytest.mark.parametrize("kind", [Recommender, FactorizationMachine])
def test_a_file_without_a_document_is_refused(header: dict[str, Any], kind: Any, tmp_path: Path) -> None:
    text = json.dumps({"format": "coldstream-snapshot", "version": 5} | header).encode()
    np.savez(path := tmp_path / "hostile.npz", __header__=np.frombuffer(text, np.uint8))
    with pytest.raises(InvalidSnapshot, match=r"hostile\.npz"):
        kind.load(path)


def test_an_array_of_nothing_is_refused_before_its_length_is_believed(tmp_path: Path) -> None:
    shop().save(path := tmp_path / "hostile.npz")
    members = {}
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    declared = "{'descr': '|S0', 'fortran_order': False, 'shape': (1099511627776,), }"
    members["model.w.npy"] = b"\x93NUMPY\x01\x00" + (len(declared) + 1).to_bytes(2, "little") + declared.encode() + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(InvalidSnapshot, match="damaged"):
        Recommender.load(path)


def test_a_machine_whose_vocabulary_is_longer_than_its_rows_is_refused(tmp_path: Path) -> None:
    machine = FactorizationMachine(factors=3)
    machine.learn_one({"a": "x"}, 1.0)
    machine.save(path := tmp_path / "machine.npz")
    document, arrays = read_snapshot(path)
    document["vocabulary"]["column_field"] += [0] * 1000
    document["vocabulary"]["column_value"] += [f"v{n}" for n in range(1000)]
    write_snapshot(path, document, arrays)
    with pytest.raises(InvalidSnapshot, match="not the same columns"):
        FactorizationMachine.load(path)


def test_a_session_that_had_an_item_very_often_is_merged_at_once() -> None:
    recommender = shop()
    document, arrays = recommender.state()
    parts = parted(arrays["users.user"], arrays["users.user_length"])
    parts[0] = _HEADER.pack(math.nan, 0, 0, 3) + np.array([1, 2**31 - 2], np.int32).tobytes()
    arrays["users.user"], arrays["users.user_length"] = joined(parts)
    often = Recommender.from_state(document, arrays)
    for user in ("u1", "u2"):
        often.learn(Event(user, "i1"))
    began = time.process_time()
    often.merge_user("u0", "u1")
    assert time.process_time() - began < 5
    again = Recommender.from_state(*often.state())  # what is had oftener than can be counted is not counted further
    assert again.recommend("u1", 3) == often.recommend("u1", 3)


def test_what_was_chosen_as_often_as_can_be_counted_is_not_counted_further() -> None:
    recommender = shop()
    document, arrays = recommender.state()
    for name in ("choices", "together", "follows"):
        own = arrays[f"catalogue.{name}"].copy()
        own[own > 0] = 2**31 - 2
        arrays[f"catalogue.{name}"] = own
    often = Recommender.from_state(document, arrays)
    for n in range(20):
        often.learn(Event(f"u{n % 3}", f"i{n % 6}"))
    often.learn([Event(f"u{n % 3}", f"i{n % 6}") for n in range(20)])
    _, arrays = often.state()
    for name in ("choices", "together", "follows"):
        assert arrays[f"catalogue.{name}"].min() >= 0
        assert arrays[f"catalogue.{name}"].max() == 2**31 - 2
    again = Recommender.from_state(*often.state())
    assert again.recommend("u1", 3) == often.recommend("u1", 3)


def test_combinations_of_nothing_cost_nothing() -> None:
    recommender = shop()
    document, arrays = recommender.state()
    lengths = arrays["catalogue.combination_length"]
    arrays["catalogue.combination_length"] = np.concatenate([lengths, np.zeros(3_000_000, np.int32)])
    began = time.process_time()
    padded = Recommender.from_state(document, arrays)
    assert time.process_time() - began < 2  # 80 MB of them took minutes
    for own in (recommender, padded):
        own.put_item("new", {"genre": ["g1", "g2"]})
    assert padded.explain("u1", "new") == recommender.explain("u1", "new")


@pytest.mark.parametrize("memory", ["1000000 TiB", "33554432 TiB", "999999999999 TiB"])
def test_a_budget_beyond_all_addresses_holds_nothing_back(memory: str) -> None:
    """A log may have one, so that it cannot be refused: nothing would be left to start with."""
    vast = Recommender(Schema(user=[Id()], item=[Id()]), factors=4, bounds=Bounds(memory=memory))
    vast.put_items((f"i{n}", {}) for n in range(5000))
    vast.learn(Event("u", "i7"))
    again = Recommender.from_state(*vast.state())
    assert again.recommend("u", 1) == vast.recommend("u", 1)


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
from coldstream import Bounds, Event, Id, Recommender, Schema
own = Recommender(Schema(user=[Id()], item=[Id()]), factors=4, bounds=Bounds(memory="8 GiB"))
own.put_items((f"i{n}", {}) for n in range(5000))
own.learn(Event("u", "i7"))
pages = int(open("/proc/self/statm").read().split()[0])
print(pages * resource.getpagesize() < 3 * 2**30, len(own.engine.shared.machine.parameters.rows.V) < 20_000)
"""


def test_where_addresses_are_limited_none_are_taken_beforehand() -> None:
    ran = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=600)
    assert (ran.stdout, ran.returncode) == ("True True\n", 0), ran.stderr
