"""After warming up, nothing is compiled any more while people wait."""

import subprocess
import sys

import pytest

DRIVE = """
import gc, sys
from numba.core.registry import CPUDispatcher
from coldstream import Boost, Bounds, Categories, Category, Event, Id, Number, Recommender, Rules, Schema, TimePart
from coldstream.config import preset
from coldstream.runtime.live_evaluation import LiveEvaluation
from coldstream.runtime.warming import warm_up

def compiled():
    return {(d.py_func.__qualname__, s) for d in gc.get_objects() if isinstance(d, CPUDispatcher) for s in d.signatures}

schemas = {
    "plain": Schema(),
    "rich": Schema(
        user=[Id(), Category("country")],
        item=[Id(), Categories("genre"), Category("shop"), Number("price", scale=10.0)],
        context=[TimePart("day"), Category("device")],
        exclude_seen=False,
    ),
}
schema, settled = schemas[sys.argv[1]], preset(sys.argv[2])
warm_up(schema, settled)
before = compiled()
assert before
rich = sys.argv[1] == "rich"
for spread, bounds in ((1, Bounds()), (40, Bounds()), (40, Bounds(memory="1 MiB"))):
    recommender, evaluation = Recommender(schema, settled, bounds=bounds), LiveEvaluation()
    for n in range(60):
        recommender.put_item(f"i{n}", {"genre": ["a", f"g{n % spread}"], "shop": n % spread, "price": n} if rich else {})
    recommender.put_user("u1", {"country": "NL"} if rich else {})
    for t in range(120):
        context = {"device": "phone", "mood": "glad"} if rich and t % 3 == 0 else {}
        event = Event(f"u{t % 7}", f"i{t * t % 90}", 3600.0 * t if t % 5 else None, context)
        ranks = evaluation.test(recommender, event)
        recommender.learn(event)
        evaluation.note(False, recommender.engine.place(event.item), ranks)
        recommender.recommend(event.user, 10, time=60.0, context=context)
        asked = [(event.user, 10, dict(context=context, time=60.0)), (None, 3, dict(exclude_seen=False, deny=["i2"]))]
        recommender.serving.recommend_batch([recommender.serving.encode_request(user, n, **rest) for user, n, rest in asked])
        recommender.recommend(None, 3, allow=["i1", "i2"], deny=["i2"], where={"genre": "a"} if rich else None)
    recommender.explain("u1", "i1")
    recommender.similar("i1")
    recommender.recommend("u1", 5, rules=Rules([Boost({"genre": "a"})] if rich else [], diversity=0.5))
    recommender.remove_item("i1")
    recommender.forget_user("u1")
    recommender = Recommender.from_state(*recommender.state())
    recommender.observe(Event("u2", "i3"))
    recommender.learn(Event("u2", "i1"))
    recommender.learn([Event("u2", "i1"), Event("u3", "i2")])
    recommender.engine.replay([(recommender.position + n, Event("u4", f"i{n}")) for n in range(1, 9)])
    if bounds.memory is not None:
        recommender.learn([Event(f"new {n}", "i1") for n in range(1000)])
        assert recommender.memory.gone
print(sorted(compiled() - before))
"""


@pytest.mark.parametrize("schema", ["plain", "rich"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_nothing_is_compiled_after_warming_up(schema: str, preset: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRIVE, schema, preset], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


SEVERAL = """
import gc
from numba.core.registry import CPUDispatcher
from coldstream import Categories, Event, Id, Recommender, Schema
from coldstream.config import preset
from coldstream.cluster.learners import LocalLearners
from coldstream.cluster.lines import Lines
from coldstream.runtime.records import Interaction
from coldstream.cluster.warming import warm_merging
from coldstream.cluster.exchange import adopt

def compiled():
    return {(d.py_func.__qualname__, s) for d in gc.get_objects() if isinstance(d, CPUDispatcher) for s in d.signatures}

schema = Schema(user=[Id()], item=[Id(), Categories("genre")])
warm_merging(schema, preset("default"))
before = compiled()
assert any("merge" in name for name, _ in before)
front = Recommender(schema, preset("default"))
front.put_items((f"i{n}", {"genre": ["a", f"g{n % 5}"]}) for n in range(60))
learners = LocalLearners(front.state(), 3)
for first in range(1, 200, 50):
    events = [Interaction(f"u{n % 7}", f"i{n * n % 60}", 60.0 * n) for n in range(first, first + 50)]
    learners.take(Lines.of(enumerate(events, first)))
    learners.learn(20)
    learners.merge()
    learners.learn(50)
    front.engine.replay_observed([(first + n, event.event()) for n, event in enumerate(events)])
    changes = learners.merge_for_front()()
adopt(front.engine.shared, changes, front.engine.clock)
print(sorted(compiled() - before))
"""


def test_nothing_is_compiled_when_learners_merge() -> None:
    done = subprocess.run([sys.executable, "-c", SEVERAL], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
