"""Compiling before anybody waits: every kernel that a service calls is called once, on a recommender that is thrown away."""

from typing import Any

from coldstream.config import Hyperparameters
from coldstream.events.event import Event
from coldstream.features.fields import Categories, Category, Field, Number
from coldstream.features.schema import Schema
from coldstream.recommender import Recommender
from coldstream.runtime.live_evaluation import LiveEvaluation

_ITEMS = 12


def warm_up(schema: Schema, hyperparameters: Hyperparameters) -> None:
    """Compile, or load what was compiled before. Both ways to index a catalogue are tried: few signatures and many."""
    for alike in (True, False):
        recommender, evaluation = Recommender(schema, hyperparameters), LiveEvaluation(1, 1)
        for number in range(_ITEMS):
            attributes = {f.name: _example(f, 0 if alike else number) for f in schema.item}
            recommender.put_item(f"item {number}", {name: raw for name, raw in attributes.items() if raw is not None})
        for number in range(3):
            event = Event("user", f"item {number}", 0.0)
            ranks = evaluation.test(recommender, event)
            recommender.learn(event)
            evaluation.note(not number, recommender.place(event.item), recommender.places(), ranks)
        recommender.recommend("user", time=0.0)
        recommender.recommend_prepared([recommender.prepared("user", 1, None, 0.0, None, None)])
        recommender.explain("user", "item 0", time=0.0)
        Recommender.from_state(*recommender.state())
        recommender.remove_item("item 0")
        recommender.forget_user("user")


def _example(field: Field, number: int) -> Any:
    match field:
        case Category():
            return str(number)
        case Categories():
            return [str(number)]
        case Number():
            return number
        case _:
            return None
