"""Methods by their names."""

from pathlib import Path

import pytest

from coldstream import Category, Event, Id, InvalidInput, Schema
from coldstream.evaluation.methods import METHODS, parse_method
from coldstream.evaluation.prequential import run_trial
from coldstream.evaluation.workload import Workload
from coldstream.events.stream import Stream

EVENTS = [Event(f"u{n * n % 5}", f"i{n * n % 11}", float(n), {"device": "pq"[n % 2]}) for n in range(60)]
ITEMS = {f"i{n}": {"genre": "ab"[n % 2]} for n in range(11)}
RETURNING = Schema(item=(Id(), Category("genre")), context=(Category("device"),))
PASSING = Schema((), (Id(), Category("genre")), (Category("device"),))


def workload(schema: Schema = RETURNING, repeats: bool = True) -> Workload:
    return Workload(Stream("stream", EVENTS, {}, ITEMS, repeats), schema, schema)


@pytest.mark.parametrize("schema", [RETURNING, PASSING], ids=["users return", "nobody returns"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_on_a_stream_with_attributes_and_context(name: str, schema: Schema) -> None:
    trial = run_trial(parse_method(name).build(workload(schema), 1), workload(schema).stream, 3)
    assert len(trial.rank) == 42
    assert (trial.candidates == 6).all()


@pytest.mark.parametrize("name", METHODS)
def test_the_seed_makes_a_difference_exactly_where_it_is_said_to(name: str) -> None:
    ranks = [run_trial(parse_method(name).build(workload(), seed), workload().stream, 3).rank.tolist() for seed in (1, 2)]
    assert (ranks[0] != ranks[1]) == parse_method(name).seeded


def test_static_methods_remember_and_do_not_learn() -> None:
    stayed = {}
    for name in ("static-fm", "ifm"):
        method = parse_method(name).build(workload(repeats=False), 1)
        for item in ITEMS:
            method.add_item(item, ITEMS[item])
        method.train(EVENTS[:20])
        before = [method.rank("stranger", item, context={}, time=None) for item in ITEMS]
        for event in EVENTS[20:40]:
            method.learn(event)
        stayed[name] = before == [method.rank("stranger", item, context={}, time=None) for item in ITEMS]
        assert method.rank("u0", "i3", context={}, time=None).candidates < len(ITEMS)
    assert stayed == {"static-fm": True, "ifm": False}


def test_options_reach_the_method() -> None:
    assert parse_method("coldstream:factors=3:loss=bpr").build(workload(), 0).recommender.hyperparameters.factors == 3
    assert parse_method("coldstream:loss=bpr").options == {"loss": "bpr"}
    assert parse_method("coldstream:trends=[10, 20.5]").options == {"trends": [10, 20.5]}
    assert parse_method("linear").build(workload(), 0).recommender.hyperparameters.factors == 0
    assert parse_method("recent-popularity:window=7").build(workload(), 0) is not None


def test_settings_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "tuned.toml").write_text("factors = 3\nlearning_rate = 0.05\n")
    method = parse_method(f"coldstream:settings={tmp_path / 'tuned.toml'}:factors=4").build(workload(), 0)
    settings = method.recommender.hyperparameters
    assert (settings.factors, settings.learning_rate) == (4, 0.05)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ("pop", "method must be one of coldstream, .*, got 'pop'"),
        ("popularity:speed", "an option must be name=value, got 'speed'"),
        ("popularity:speed=3", "it has no option 'speed'; known are none"),
        ("coldstream:speed=3", "speed: no such hyperparameter"),
        ("coldstream:factors=x", "factors must be a whole number"),
        ("coldstream:settings=nowhere.toml", "nowhere.toml"),
        ("recent-popularity:half_life=-1", "half_life must be"),
    ],
)
def test_what_cannot_be_had_is_refused(asked: str, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        parse_method(asked).build(workload(), 0)
