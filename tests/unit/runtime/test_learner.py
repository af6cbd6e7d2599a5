"""Lines that are replayed together lead to the same bits as lines that are done one by one."""

from coldstream import Category, Id, Recommender, Schema
from coldstream.config import preset
from coldstream.runtime import learner as module
from coldstream.runtime.learner import Learner
from coldstream.runtime.records import (
    Interaction,
    ItemPut,
    ItemRemoved,
    LogHeader,
    Record,
    SchemaExtended,
    UserForgotten,
    UserPut,
    line,
    record_of,
)
from coldstream.storage.store import Entry

SCHEMA = Schema(item=[Id(), Category("brand")], context=[Category("device")])
MORE = Schema(item=[Id(), Category("brand"), Category("shelf")], context=[Category("device")])
SMALL = preset("default", factors=4, negatives=5)


def lines() -> list[Record]:
    """Everything a log may hold, in runs of one kind and alone."""
    records: list[Record] = [ItemPut(f"i{n}", {"brand": f"b{n % 3}"}) for n in range(20)]
    records += [ItemPut("i5", {}, 10.0, 40.0), ItemPut("i6", {}, hidden=True), ItemPut("i7", {}, None, 30.0)]
    records += [UserPut(f"u{n}", {}) for n in range(3)]
    records += [Interaction(f"u{n % 5}", f"i{n * 7 % 23}", float(n), {"device": "phone"}) for n in range(60)]
    records += [ItemRemoved("i3"), ItemPut("i3", {}), ItemPut("i3", {"brand": "b9"}), UserForgotten("u1")]
    records += [Interaction("u1", "i3"), SchemaExtended(MORE.document()), ItemPut("i4", {"shelf": "low"})]
    return records + [Interaction(f"u{n % 9}", f"i{n * 5 % 29}", float(n), {"mood": "glad"}) for n in range(90)]


def begun() -> Learner:
    return Learner.begun(LogHeader(SCHEMA.document(), SMALL.document(), 7), 1)


def state(learner: Learner) -> tuple[str, dict[str, bytes]]:
    document, arrays = learner.view()
    return repr(document), {name: array.tobytes() for name, array in arrays.items()}


def test_a_log_is_replayed_though_it_holds_a_time_that_is_refused_by_now() -> None:
    records = [ItemPut("i", {}), Interaction("u", "i", 1.7e12, {"device": "phone"}), Interaction("u", "i", 1.7e12)]
    one_by_one, together = begun(), begun()
    for position, record in enumerate(records, 2):
        one_by_one.apply(position, record)
    assert together.replay(Entry(position, line(record).body) for position, record in enumerate(records, 2)) == 3
    assert state(together) == state(one_by_one)
    assert together.recommender.events == 2


def test_a_line_that_should_not_be_there_is_learned_without_its_context() -> None:
    records = [ItemPut("i", {}), Interaction("u", "i", 1.0, {"device": "phone"}), Interaction("u", "i", 2.0, {"new": 5})]
    records.append(Interaction("v", "i", 3.0, {"device": "phone"}))
    one_by_one, together, sound = begun(), begun(), begun()
    for position, record in enumerate(records, 2):
        one_by_one.apply(position, record)
        sound.apply(position, Interaction("u", "i", 2.0) if position == 4 else record)
    together.replay(Entry(position, line(record).body) for position, record in enumerate(records, 2))
    assert state(together) == state(one_by_one) == state(sound)


def test_replayed_together_or_one_by_one(monkeypatch) -> None:
    records = lines()
    one_by_one = begun()
    # Positions have gaps: a store may lose a number to a transaction that failed, and lines are erased with people.
    positions = [2 + n + n // 10 for n in range(len(records))]
    for position, record in zip(positions, records, strict=True):
        one_by_one.apply(position, record)
    entries = [Entry(position, line(record).body) for position, record in zip(positions, records, strict=True)]
    together = begun()
    assert together.replay(entries) == len(records)
    assert state(together) == state(one_by_one)
    assert together.position == positions[-1]
    monkeypatch.setattr(module, "LONGEST_PIECE", 7)
    pieces = begun()
    assert pieces.replay(iter(entries[:50])) == 50
    assert pieces.replay(iter(entries[50:])) == len(records) - 50
    assert state(pieces) == state(one_by_one)


def test_a_window_shorter_than_what_is_replayed_keeps_the_latest() -> None:
    records = lines()
    learners = begun(), begun()
    for learner in learners:
        learner.evaluation = learner.evaluation.resized(3, 13)
    for position, record in enumerate(records, 2):
        learners[0].apply(position, record)
    learners[1].replay(Entry(position, line(record).body) for position, record in enumerate(records, 2))
    assert state(learners[0]) == state(learners[1])
    assert learners[0].evaluation.metrics() == learners[1].evaluation.metrics()


def test_what_is_drawn_depends_on_the_position_in_the_log() -> None:
    """So that a line means the same to whoever reads it, whatever else is in the log."""
    plain = Recommender(SCHEMA, SMALL, 7)
    learner = begun()
    for position, record in enumerate(lines()[:60], 2):
        learner.apply(position, record)
        match record:
            case ItemPut():
                plain.put_items([(record.id, record.attributes, record.availability())])
            case UserPut():
                plain.put_user(record.id, record.attributes)
            case Interaction():
                plain.learn(record.event(), position=position)
    assert learner.recommender.position == plain.position == 61
    assert repr(learner.recommender.state()[1]["model.V"].tobytes()) == repr(plain.state()[1]["model.V"].tobytes())


def test_a_user_is_new_until_the_first_event_whether_known_before_or_not() -> None:
    records = [
        UserPut("ann", {}),
        Interaction("ann", "i1", 0.0),
        Interaction("ann", "i2", 1.0),
        Interaction("bob", "i1", 2.0),
    ]
    one_by_one, together = begun(), begun()
    for position, record in enumerate(records, 2):
        one_by_one.apply(position, record)
    together.replay(Entry(position, line(record).body) for position, record in enumerate(records, 2))
    for learner in (one_by_one, together):
        assert learner.evaluation.metrics().new_users == 2 / 3


def test_a_log_of_before_kinds_leads_to_the_same_bits_whatever_is_declared() -> None:
    begin = (
        '{"kind":"begin","schema":{"user":{"id":{"kind":"id"}},"item":{"id":{"kind":"id"}},"context":{},'
        '"exclude_seen":true,"open_context":true%s},"hyperparameters":{"factors":3,"negatives":2},"seed":7}'
    )
    written = [f'{{"kind":"item","id":"i{n}","attributes":{{}}}}' for n in range(6)]
    written += [f'{{"kind":"event","user":"u{n % 3}","item":"i{n * 5 % 6}","time":{n}.0}}' for n in range(20)]
    states = []
    for declared in ("", ',"feedback":{"view":0.2,"dislike":-1.0}'):
        first, *rest = (Entry(n, body.encode()) for n, body in enumerate([begin % declared, *written], 1))
        learner = Learner.begun(record_of(first), 1)
        assert learner.replay(rest) == len(written)
        states.append({name: array.tobytes() for name, array in learner.recommender.state()[1].items()})
        assert not learner.recommender.state()[1].keys() & {"users.sessions"}
    assert states[0] == states[1]
