"""From what survived to what was known, and whether it can be trusted."""

import logging
import shutil
import sqlite3
import tokenize
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coldstream import Bounds, Categories, Category, Id, InvalidInput, InvalidSchema, Recommender, Schema, TimePart, Trend
from coldstream.config import Hyperparameters
from coldstream.errors import Interrupted, InvalidSnapshot, StoreDamaged, StoreUnavailable
from coldstream.features.fields import Field
from coldstream.runtime.learner import Learner, save
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, LogHeader, Record, UserForgotten, UserPut, line
from coldstream.runtime.recovery import RequestedModel, loaded, recovered
from coldstream.runtime.verification import difference, verified
from coldstream.runtime.writing.checks import Checks
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.storage.store import LogLine, Saved
from coldstream.storage.view import View
from conftest import bits

SMALL = Hyperparameters(factors=3, negatives=3)
SCHEMA = Schema(user=[Id()], item=[Id(), Category("genre")])
REQUESTED = RequestedModel(SCHEMA, SMALL, 1)
SAME = RequestedModel(None, None, None)
RECORDS: list[Record] = [
    ItemPut("i1", {"genre": "jazz"}),
    UserPut("u1", {}),
    *(Interaction(f"u{t % 3}", f"i{t * t % 7}", 3600.0 * t) for t in range(20)),
    ItemRemoved("i2"),
    Interaction("u1", "i1", None, {"mood": "glad"}),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "data")) as opened:
        yield opened


def lived(store: SqliteStore, records: list[Record], learner: Learner | None = None) -> Learner:
    learner = recovered(store, REQUESTED) if learner is None else learner
    for record, position in zip(records, store.append([line(record) for record in records], learner.position), strict=True):
        assert position is not None
        learner.apply(position, record)
    return learner


def keep(store: SqliteStore, learner: Learner, tmp_path: Path) -> Saved:
    save(tmp_path / "made", learner.view())
    return store.save(learner.position, tmp_path / "made")


def damage(store: SqliteStore, saved: Saved) -> None:
    with store.opened(saved) as path:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.chmod(0o600)
        path.write_bytes(content)


def test_a_new_log_begins_with_what_it_is_made_from(store: SqliteStore) -> None:
    learner = recovered(store, REQUESTED)
    assert (learner.position, learner.declared, learner.recommender.seed) == (1, SCHEMA, 1)
    assert bits(learner.recommender) == bits(Recommender(SCHEMA, SMALL, 1))
    assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)


def test_a_new_log_needs_a_schema(store: SqliteStore) -> None:
    with pytest.raises(InvalidInput, match="--schema"):
        recovered(store, SAME)
    assert store.last() == 0


@pytest.mark.parametrize("at", [0, 5, len(RECORDS)])
def test_a_snapshot_and_the_rest_lead_to_the_same_bits_as_the_whole_log(store: SqliteStore, tmp_path: Path, at: int) -> None:
    learner = lived(store, RECORDS[:at])
    keep(store, learner, tmp_path)
    lived(store, RECORDS[at:], learner)
    again = recovered(store, SAME)
    assert bits(again.recommender) == bits(learner.recommender)
    assert (again.position, again.declared) == (learner.position, SCHEMA)
    for saved in store.snapshots():
        store.discard(saved)
    assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)


def test_a_damaged_snapshot_is_passed_over_with_a_warning(
    store: SqliteStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learner = lived(store, RECORDS[:5])
    keep(store, learner, tmp_path)
    lived(store, RECORDS[5:10], learner)
    newest = keep(store, learner, tmp_path)
    lived(store, RECORDS[10:], learner)
    damage(store, newest)
    with caplog.at_level(logging.WARNING):
        assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)
    assert "the one before is used" in caplog.text


def test_a_snapshot_under_a_wrong_position_is_passed_over(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS)
    save(tmp_path / "made", learner.view())
    store.save(3, tmp_path / "made")
    assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)


def test_without_any_whole_snapshot_an_erased_log_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS)
    saved = keep(store, learner, tmp_path)
    store.purge({"u1": learner.position}, learner.position)
    damage(store, saved)
    with pytest.raises(StoreDamaged, match="people were erased"):
        recovered(store, SAME)


def test_a_snapshot_from_before_an_erasure_is_never_used(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS[:5])
    keep(store, learner, tmp_path)
    lived(store, RECORDS[5:], learner)
    store.purge({"u1": learner.position}, learner.position)
    with pytest.raises(StoreDamaged, match="people were erased"):
        recovered(store, SAME)


def test_a_log_without_a_beginning_is_refused(store: SqliteStore) -> None:
    store.append([LogLine(b'{"kind":"item-removed","id":"i"}')], 0)
    with pytest.raises(StoreDamaged, match="must begin"):
        recovered(store, SAME)


# A log and snapshots that do not belong together


def older_copy(store: SqliteStore, folder: Path) -> None:
    """Put the log back that there was when it had one line, and let nothing but snapshots tell."""
    for saved in store.snapshots():
        with store.opened(saved) as path:
            shutil.copy(path, folder / "snapshots")


@pytest.mark.parametrize("lines", [0, 1, 5])
def test_a_snapshot_ahead_of_the_log_is_refused_and_both_are_named(store: SqliteStore, tmp_path: Path, lines: int) -> None:
    learner = lived(store, RECORDS)
    keep(store, learner, tmp_path)
    with closing(SqliteStore(tmp_path / "older")) as older:
        if lines:
            lived(older, RECORDS[: lines - 1])
        older_copy(store, tmp_path / "older")
        with pytest.raises(StoreDamaged) as raised:
            recovered(older, REQUESTED)
        (ahead,) = older.snapshots()
        assert older.last() == lines
        with pytest.raises(InvalidSnapshot, match=f"the log ends at line {lines}"):
            loaded(older, ahead)
        for part in (
            str(tmp_path / "older" / "log.sqlite"),
            f"ends at line {lines}",
            str(next((tmp_path / "older" / "snapshots").iterdir())),
            f"up to line {learner.position}",
            "put back the log",
            "remove them",
        ):
            assert part in str(raised.value)
        older.discard(ahead)
        assert recovered(older, REQUESTED).position == max(lines, 1)


def test_verification_names_a_snapshot_ahead_of_the_log(store: SqliteStore, tmp_path: Path) -> None:
    keep(store, lived(store, RECORDS), tmp_path)
    with closing(SqliteStore(tmp_path / "older")) as older:
        lived(older, RECORDS[:4])
        older_copy(store, tmp_path / "older")
        for recent in (False, True):
            verdict = verified(older, recent, lambda _: None)
            assert (verdict.last, verdict.same) == (5, [])
            assert "the log ends at line 5" in verdict.different[0][1]


def test_a_damaged_line_is_not_replayed(store: SqliteStore, tmp_path: Path) -> None:
    lived(store, RECORDS)
    with closing(sqlite3.connect(tmp_path / "data" / "log.sqlite")) as connection, connection:
        connection.execute("UPDATE log SET body = replace(CAST(body AS TEXT), 'i1', 'i3') WHERE position = 7")
    with pytest.raises(StoreDamaged, match="line 7 of the log"):
        recovered(store, SAME)
    with pytest.raises(StoreDamaged, match="line 7 of the log"):
        verified(store, False, lambda _: None)


def test_verification_checks_lines_that_no_replay_needs(store: SqliteStore, tmp_path: Path) -> None:
    """Behind an erasure the log is not replayed from its first line, and is still looked at."""
    learner = lived(store, RECORDS)
    keep(store, learner, tmp_path)
    store.purge({"u1": learner.position}, learner.position)
    assert verified(store, False, lambda _: None).different == []
    with closing(sqlite3.connect(tmp_path / "data" / "log.sqlite")) as connection, connection:
        connection.execute("UPDATE log SET body = x'00' WHERE position = 2")
    assert verified(store, True, lambda _: None).different == []
    with pytest.raises(StoreDamaged, match="line 2 of the log"):
        verified(store, False, lambda _: None)


@pytest.mark.parametrize(
    "error", [SyntaxError("x"), tokenize.TokenError("x"), RecursionError(), AssertionError(), EOFError()]
)
def test_whatever_a_snapshot_raises_the_one_before_is_used(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    learner = lived(store, RECORDS[:5])
    older = keep(store, learner, tmp_path)
    lived(store, RECORDS[5:], learner)
    newest = keep(store, learner, tmp_path)
    load = Learner.load

    def failing(store: View, saved: Saved) -> Learner:
        if saved == newest:
            raise error
        return load(store, saved)

    monkeypatch.setattr(Learner, "load", failing)
    again = recovered(store, SAME)
    assert bits(again.recommender) == bits(learner.recommender)
    assert again.passed_over == [newest]
    verdict = verified(store, False, lambda _: None)
    assert (verdict.same, [saved for saved, _ in verdict.different]) == ([older], [newest])


# Requests that differ from what there is


@pytest.mark.parametrize(
    ("requested", "reason"),
    [
        (RequestedModel(SCHEMA, SMALL.with_(learning_rate=0.2), 1), "learning_rate is 0.1 in the store and 0.2"),
        (RequestedModel(SCHEMA, SMALL, 2), "seed is 1 in the store and 2"),
        (RequestedModel(SCHEMA, SMALL, 0), "seed is 1 in the store and 0"),
        (RequestedModel(None, None, 0), "seed is 1 in the store and 0"),
        (
            RequestedModel(Schema(user=[Id()], item=[Id()]), None, None),
            "item field 'genre' was declared before and is missing",
        ),
        (
            RequestedModel(Schema(user=[Id()], item=[Id(), Categories("genre")]), None, None),
            "item field 'genre' cannot change",
        ),
        (
            RequestedModel(Schema(user=[Id()], item=[Id(), Category("genre")], exclude_seen=False), None, None),
            "exclude_seen",
        ),
        (RequestedModel(Schema(item=[Id(), Category("genre"), Trend("hot", half_life=5.0)]), None, None), "cannot be added"),
        (
            RequestedModel(Schema(item=[Id(), Category("genre")], context=[Categories("mood")]), None, None),
            "'mood' cannot change",
        ),
    ],
)
def test_a_plan_that_contradicts_what_was_learned_is_refused_and_nothing_changes(
    store: SqliteStore, requested: RequestedModel, reason: str
) -> None:
    learner = lived(store, RECORDS)
    with pytest.raises((InvalidInput, InvalidSchema), match=reason):
        recovered(store, requested)
    assert store.last() == learner.position
    assert bits(recovered(store, REQUESTED).recommender) == bits(learner.recommender)


def extended(**fields: list[Field]) -> Schema:
    sides: dict[str, list[Field]] = {"user": [Id()], "item": [Id(), Category("genre")], "context": []}
    return Schema(**{side: own + fields.get(side, []) for side, own in sides.items()})


@pytest.mark.parametrize(
    ("schema", "then"),
    [
        (extended(item=[Category("colour")]), ItemPut("i9", {"genre": "jazz", "colour": "red"})),
        (extended(user=[Category("country")]), UserPut("u1", {"country": "NL"})),
        (extended(context=[TimePart("day")]), Interaction("u1", "i1", 3600.0)),
        (extended(context=[Category("mood")]), Interaction("u1", "i1", None, {"mood": "sad"})),
        (extended(context=[Category("device")]), Interaction("u1", "i1", None, {"device": "phone"})),
    ],
)
def test_new_fields_are_taken_over_and_replayed(store: SqliteStore, tmp_path: Path, schema: Schema, then: Record) -> None:
    lived(store, RECORDS)
    learner = recovered(store, RequestedModel(schema, None, None))
    assert learner.declared == schema
    keep(store, learner, tmp_path)
    lived(store, [then, *RECORDS[2:9]], learner)
    keep(store, learner, tmp_path)
    again = recovered(store, RequestedModel(schema, None, None))
    assert bits(again.recommender) == bits(learner.recommender)
    for saved in store.snapshots():
        store.discard(saved)
    from_the_log = recovered(store, SAME)
    assert bits(from_the_log.recommender) == bits(learner.recommender)
    assert from_the_log.declared == schema


def test_whether_the_context_is_open_may_change(store: SqliteStore) -> None:
    lived(store, RECORDS)
    closed = Schema(user=[Id()], item=[Id(), Category("genre")], open_context=False)
    learner = recovered(store, RequestedModel(closed, None, None))
    assert not learner.recommender.schema.open_context
    assert "mood" in [field.name for field in learner.recommender.schema.context]


# Verification


def test_verification_replays_from_the_oldest_base(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS[:5])
    keep(store, learner, tmp_path)
    lived(store, RECORDS[5:], learner)
    keep(store, learner, tmp_path)
    whole = verified(store, False, lambda _: None)
    assert (whole.base, whole.last, whole.replayed) == (1, learner.position, len(RECORDS))
    assert ([saved.number for saved in whole.same], whole.different) == ([1, 2], [])
    recent = verified(store, True, lambda _: None)
    assert (recent.base, recent.replayed) == (6, len(RECORDS) - 5)
    assert ([saved.number for saved in recent.same], recent.different) == ([1, 2], [])


def test_verification_finds_a_snapshot_that_the_log_does_not_lead_to(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS)
    learner.recommender.put_item("smuggled in")
    keep(store, learner, tmp_path)
    (wrong,) = verified(store, False, lambda _: None).different
    assert "the replay led to another" in wrong[1]


def test_verification_finds_a_damaged_snapshot(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS)
    good, bad = keep(store, learner, tmp_path), keep(store, learner, tmp_path)
    damage(store, bad)
    verdict = verified(store, False, lambda _: None)
    assert (verdict.same, [saved for saved, _ in verdict.different]) == ([good], [bad])
    assert "damaged" in verdict.different[0][1]


def test_a_difference_of_one_bit_is_found() -> None:
    recommender = Recommender(SCHEMA, SMALL)
    recommender.put_item("i", {"genre": "jazz"})
    state, other = recommender.state(), recommender.state()
    assert difference(state, other) == ""
    name = next(name for name, array in other[1].items() if name.startswith("model.") and array.size)
    other[1][name].view("uint8").reshape(-1)[0] ^= 1
    assert difference(state, other) == name
    changed: dict[str, Any] = {**state[0], "seed": 9}
    assert difference(state, (changed, state[1])) == "seed"


def test_the_recommender_of_a_service_snapshot_can_be_loaded_alone(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS)
    with store.opened(keep(store, learner, tmp_path)) as path:
        assert bits(Recommender.load(path)) == bits(learner.recommender)


def test_verification_beside_a_service_does_not_blame_what_it_replaced(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS[:5])
    keep(store, learner, tmp_path)
    lived(store, RECORDS[5:] * 60, learner)
    last = keep(store, learner, tmp_path)
    replaced = []

    def replace(done: int) -> None:
        for saved in store.snapshots():
            replaced.append(saved)
            store.discard(saved)
        keep(store, learner, tmp_path)

    verdict = verified(store, False, replace)
    assert last in replaced
    assert verdict.different == []


def test_verification_beside_an_erasure_asks_for_another_try(store: SqliteStore, tmp_path: Path) -> None:
    learner = lived(store, RECORDS * 60)
    keep(store, learner, tmp_path)
    with pytest.raises(StoreUnavailable, match="run it again"):
        verified(store, False, lambda _: store.purge({"u1": learner.position}, learner.position))


def test_a_replay_that_nobody_wants_any_more_ends(store: SqliteStore) -> None:
    learner = lived(store, RECORDS * 60)
    with pytest.raises(Interrupted):
        recovered(store, SAME, lambda: True)
    assert bits(recovered(store, SAME).recommender) == bits(learner.recommender)


def test_a_log_from_before_there_were_bounds_is_replayed_without_any_and_then_gets_them(store: SqliteStore) -> None:
    store.append([line(LogHeader(SCHEMA.document(), SMALL.document(), 1))], 0)
    events: list[Record] = [Interaction(f"u{n}", "i1", None, {f"field {n}": "x"}) for n in range(120)]
    store.append([line(record) for record in events], 1)
    learner = recovered(store, SAME)
    assert len([field for field in learner.recommender.schema.context if field.name.startswith("field")]) == 120
    assert learner.recommender.bounds == Bounds()
    assert learner.position == store.last() == 123  # one line for the bounds, and one for the rule, which the header has not
    assert recovered(store, SAME).position == 123


def test_a_log_from_before_a_hyperparameter_keeps_its_bits_under_a_preset_that_has_it(store: SqliteStore) -> None:
    old = {name: value for name, value in SMALL.document().items() if name != "renewal"}
    store.append([line(LogHeader(SCHEMA.document(), old, 1))], 0)
    learner = recovered(store, RequestedModel(SCHEMA, SMALL, 1))
    assert SMALL.renewal > 0 == learner.recommender.hyperparameters.renewal
    with pytest.raises(InvalidInput, match=r"hyperparameter renewal is 0\.0 in the store and 2\.0"):
        recovered(store, RequestedModel(SCHEMA, SMALL.with_(renewal=2.0), 1))


def test_other_bounds_are_a_line_of_the_log(store: SqliteStore) -> None:
    lived(store, RECORDS)
    changed = recovered(store, SAME._replace(bounds={"users": 2, "memory": "8 MiB"}))
    assert changed.recommender.bounds == Bounds(users=2, memory="8 MiB")
    assert changed.recommender.size.users == 2
    again = recovered(store, SAME)
    assert again.position == changed.position == len(RECORDS) + 2
    assert bits(again.recommender) == bits(changed.recommender)


def test_a_budget_that_what_is_there_cannot_be_brought_within_is_refused_before_anything_is_written(
    store: SqliteStore,
) -> None:
    crowd: list[Record] = [
        Interaction(f"u{n}", "i1", None, {"tags": [f"{n} {k}" for k in range(90)]} if n < 120 else {}) for n in range(3000)
    ]
    lived(store, crowd)
    last = store.last()
    with pytest.raises(InvalidInput, match=r"memory must be at least '\d+ MiB' for what is here already, got '1 MiB'"):
        recovered(store, SAME._replace(bounds={"memory": "1 MiB"}))
    assert store.last() == last


def test_what_had_to_go_for_other_bounds_is_said(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    lived(store, RECORDS)
    recovered(store, SAME._replace(bounds={"users": 2}))
    (said,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert said.getMessage() == "what did not fit into the new bounds had to go"
    assert vars(said)["gone"]["users evicted"] > 0
    caplog.clear()
    recovered(store, SAME._replace(bounds={"users": 3}))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_person_who_had_to_go_can_be_forgotten(store: SqliteStore) -> None:
    learner = recovered(store, REQUESTED._replace(bounds={"users": 2}))
    lived(store, [Interaction(f"u{n}", "i1") for n in range(4)], learner)
    assert not learner.recommender.has_user("u0")
    Checks(learner.recommender).check([UserForgotten("u0")])
    lived(store, [UserForgotten("u0")], learner)
    assert learner.recommender.size.users == 2
