"""What is saved goes on with the same bits; what is damaged or foreign is refused."""

import copy
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coldstream import Event, Id, InvalidSnapshot, Number, Recommender, Schema
from coldstream.snapshots.archive import read_snapshot, write_snapshot
from conftest import bits
from filled import PRESETS, SCHEMA, filled, stream


def test_a_snapshot_from_before_surprise_was_counted_goes_on_without_it(tmp_path: Path) -> None:
    original = filled("default")
    original.save(tmp_path / "new")
    document, arrays = read_snapshot(tmp_path / "new")
    del document["hyperparameters"]["renewal"]
    write_snapshot(tmp_path / "old", document, {name: own for name, own in arrays.items() if name != "surprise"})
    loaded = Recommender.load(tmp_path / "old")
    assert loaded.hyperparameters == original.hyperparameters.with_(renewal=0.0)
    assert loaded.renewed_at is None
    for recommender in (original, loaded):
        recommender.learn(stream(60, seed=1))
    assert loaded.recommend("u1", 5) == original.recommend("u1", 5)


@pytest.mark.parametrize("preset", PRESETS)
def test_going_on_after_loading_is_as_if_it_had_never_stopped(preset: str, tmp_path: Path) -> None:
    original = filled(preset)
    original.remove_item("i4")
    original.forget_user("u2")
    original.save(tmp_path / "snapshot")
    loaded = Recommender.load(tmp_path / "snapshot")
    assert bits(loaded) == bits(original)
    for recommender in (original, loaded):
        for event in stream(60, seed=1):
            recommender.learn(event)
        recommender.put_item("i4", {"genre": ["new"], "price": 3.0})
        recommender.remove_item("i5")
        recommender.train(stream(20, seed=2), epochs=2)
        recommender.learn(Event("u9", "i99", 0.0, {"weather": "sunny"}))
    assert bits(loaded) == bits(original)
    for user in ("u1", "u3", "nobody"):
        assert loaded.recommend(user, 20) == original.recommend(user, 20)
    assert loaded.hyperparameters == original.hyperparameters
    assert loaded.schema == original.schema


def test_a_number_that_no_item_has_had_is_saved_without_a_column(tmp_path: Path) -> None:
    """Declared from the beginning or in mid-stream: any column would be that of something else."""
    original = Recommender(Schema(user=[Id()], item=[Id(), Number("price")]), seed=1)
    original.put_item("i1")
    original.add_fields({"item": [Number("weight")]})
    assert original.state()[1]["catalogue.number_column"].tolist() == [-1, -1]
    original.save(tmp_path / "snapshot")
    loaded = Recommender.load(tmp_path / "snapshot")
    for recommender in (original, loaded):
        recommender.put_item("i2", {"weight": 2.0})
        recommender.learn(Event("u", "i2"))
    assert original.state()[1]["catalogue.number_column"].tolist()[0] == -1
    assert bits(loaded) == bits(original)


def test_a_state_is_a_copy_and_a_view_is_not() -> None:
    """A snapshot is written from a view: with a copy of all parameters it would take as much memory again."""
    recommender = filled("default")
    (document, arrays), (viewed_document, viewed) = recommender.state(), recommender.engine.view()
    parameters, rows = recommender.engine.shared.machine.parameters.view(), recommender.engine.shared.machine.parameters.rows
    assert document == viewed_document
    assert arrays.keys() == viewed.keys()
    assert all(np.array_equal(arrays[name], viewed[name]) for name in arrays)
    assert np.shares_memory(viewed["model.V"], rows.V)
    assert not any(np.shares_memory(arrays[f"model.{name}"], own) for name, own in parameters.items())
    before = {name: array.copy() for name, array in arrays.items()}
    recommender.learn(stream(30, seed=3))
    assert all(np.array_equal(arrays[name], before[name]) for name in arrays)


def test_saving_changes_nothing_and_is_repeatable(tmp_path: Path) -> None:
    recommender = filled()
    before = bits(recommender)
    recommender.save(tmp_path / "a")
    recommender.save(tmp_path / "b")
    assert bits(recommender) == before
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("old", [None, 0o644])
def test_a_snapshot_is_its_owners_alone(tmp_path: Path, old: int | None) -> None:
    path = tmp_path / "shop.snapshot"
    if old is not None:
        path.touch(old)
    before = os.umask(0)
    try:
        Recommender(Schema(item=[Id()])).save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_recommender_survives_where_no_feature_has_a_column(tmp_path: Path) -> None:
    own = Recommender(Schema(item=[Number("price", low=0, high=9)]), preset="paper")
    own.save(tmp_path / "snapshot")
    assert bits(Recommender.load(tmp_path / "snapshot")) == bits(own)


def test_an_empty_recommender_survives(tmp_path: Path) -> None:
    Recommender(SCHEMA).save(tmp_path / "empty")
    assert Recommender.load(tmp_path / "empty").recommend("u") == []


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    filled().save(tmp_path / "snapshot")
    return tmp_path / "snapshot"


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_snapshot_is_refused(saved: Path, part: float) -> None:
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(InvalidSnapshot, match="snapshot") as error:
        Recommender.load(saved)
    assert str(saved) in str(error.value)


def test_flipped_bits_are_found_or_harmless(saved: Path) -> None:
    """A flipped bit in the archive's own padding changes nothing; anywhere else it must not pass."""
    whole, expected = saved.read_bytes(), bits(Recommender.load(saved))
    rng = np.random.default_rng(3)
    refused = 0
    for position in rng.integers(len(whole), size=60):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        try:
            assert bits(Recommender.load(saved)) == expected
        except InvalidSnapshot:
            refused += 1
    assert refused > 40


def npy(declared: str, content: bytes) -> bytes:
    """A member of an archive that says what it likes about itself."""
    padded = declared.encode().ljust(-(len(declared) + 11) % 64 + len(declared)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + content


def declared(shape: str, kind: str = "|u1") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


def rewritten(path: Path, member: str, content: bytes, how: int = zipfile.ZIP_STORED) -> None:
    """Give one member another content, with a checksum that is right."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, whole in (members | {member: content}).items():
            archive.writestr(name, whole, how if name == member else zipfile.ZIP_STORED)


@pytest.mark.parametrize("bit", range(8))
def test_every_bit_of_an_arrays_header_is_found(saved: Path, bit: int) -> None:
    """NumPy's parser raises whatever Python's own parser does, and what is not where it should be is not all it meets."""
    whole = saved.read_bytes()
    begin = whole.index(b"\x93NUMPY")
    for position in range(begin, whole.index(b"}", begin) + 1):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << bit
        saved.write_bytes(damaged)
        with pytest.raises(InvalidSnapshot, match="damaged"):
            Recommender.load(saved)


@pytest.mark.parametrize(
    "header",
    ["{'descr': '|u1', ", "'" * 200, "(" * 5000, "\\", "f(1)", declared("(5"), declared("(-5,)"), declared("(5,)", "|O")],
)
def test_a_header_that_no_parser_takes_is_damage_whatever_it_raises(saved: Path, header: str) -> None:
    rewritten(saved, "model.V.npy", npy(header, b"abcde"))
    with pytest.raises(InvalidSnapshot, match="damaged"):
        Recommender.load(saved)


def peak(action: Callable[[], object]) -> int:
    """The most bytes that an action held at once."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("how", ["compressed", "header"])
def test_a_file_that_says_it_holds_more_than_it_is_long_is_refused_before_it_is_read(saved: Path, how: str) -> None:
    huge = 2**26
    if how == "compressed":
        rewritten(saved, "model.V.npy", npy(declared(f"({huge},)"), bytes(huge)), zipfile.ZIP_DEFLATED)
    else:
        rewritten(saved, "model.V.npy", npy(declared(f"({huge},)"), b"abcde"))
    assert saved.stat().st_size < 2**20

    def refused() -> None:
        with pytest.raises(InvalidSnapshot, match=r"compressed|does not have"):
            Recommender.load(saved)

    assert peak(refused) < 2**24


def test_members_that_share_bytes_are_refused_before_they_are_read(saved: Path) -> None:
    """Every entry of the directory may point to the same bytes: a small file then unpacks to any size."""
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("large.npy", npy(declared("(1000000,)"), bytes(1_000_000)))
        archive.NameToInfo, archive._didModify = {}, True
        for n in range(60):
            shared = copy.copy(archive.filelist[-1 - n])
            archive.filelist.append(shared)
    with pytest.raises(InvalidSnapshot, match="are declared to hold"):
        Recommender.load(saved)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "text").write_text("hello")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("x", "y")
    np.savez(tmp_path / "pickled.npz", __header__=np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("other.npz", "text", "zip", "pickled.npz", "array.npy", "missing"):
        with pytest.raises(InvalidSnapshot, match=name):
            Recommender.load(tmp_path / name)


def test_another_version_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document, arrays = read_snapshot(saved)
    monkeypatch.setattr("coldstream.snapshots.archive.VERSION", 99)
    write_snapshot(saved, document, arrays)
    monkeypatch.undo()
    with pytest.raises(InvalidSnapshot, match="version 99"):
        Recommender.load(saved)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d, a: d.pop("fields"),
        lambda d, a: a.pop("users.user"),
        lambda d, a: a.update({"users.id_length": a["users.id_length"][:-1]}),
        lambda d, a: a.update({"users.user": a["users.user"][:-1]}),
        lambda d, a: a.update({"catalogue.note_length": a["catalogue.note_length"][::-1].copy()}),
        lambda d, a: a.update({"catalogue.id": np.full_like(a["catalogue.id"], ord("i"))}),
        lambda d, a: a["vocabulary.field"].put(0, -1),
        lambda d, a: a.pop("model.V"),
        lambda d, a: a.update({"model.V": a["model.V"][:, :2]}),
        lambda d, a: a.update({"model.V": a["model.V"].astype(np.float64)}),
        lambda d, a: d["hyperparameters"].update(loss="hinge"),
        lambda d, a: d["schema"]["user"].update(id={"kind": "nothing"}),
    ],
)
def test_a_snapshot_of_something_else_is_refused(saved: Path, damage: callable) -> None:
    document, arrays = read_snapshot(saved)
    damage(document, arrays)
    write_snapshot(saved, document, arrays)
    with pytest.raises(InvalidSnapshot, match="does not hold a recommender"):
        Recommender.load(saved)


def test_a_failed_write_leaves_the_old_snapshot(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full_disk(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.savez", full_disk)
    with pytest.raises(OSError, match="No space left"):
        filled().save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]
