"""Warm-up: compile every kernel that a service calls before the first request, by calling it on a throw-away recommender."""

from typing import Any

import numpy as np

from coldstream.config import Hyperparameters
from coldstream.engine.eviction import least_used
from coldstream.events.event import Event
from coldstream.features.fields import Categories, Category, Field, Number
from coldstream.features.schema import Schema
from coldstream.recommender import Recommender
from coldstream.runtime.live_evaluation import LiveEvaluation

_ITEMS = 12


def warm_up(schema: Schema, hyperparameters: Hyperparameters) -> None:
    """Compile the kernels of learning, snapshots, eviction and answering, or load them from the cache of compiled code."""
    recommender, event = example_recommender(schema, hyperparameters), Event("user", "item 1", 0.0)
    recommender.learn(event)
    recommender.observe(event)
    recommender.engine.replay([(recommender.position + 1, event)])
    _read(recommender)
    Recommender.from_state(*recommender.state())
    recommender.remove_item("item 0")
    recommender.forget_user("user")
    least_used(np.zeros(1), np.zeros(1, np.int32), np.zeros(1), 1)  # compiles the kernel and evicts nothing


def warm_reading(schema: Schema, hyperparameters: Hyperparameters) -> None:
    """Compile only the kernels that answer requests, so that another process may compile the others meanwhile."""
    _read(example_recommender(schema, hyperparameters))


def example_recommender(schema: Schema, hyperparameters: Hyperparameters) -> Recommender:
    """Return a recommender with a few example items, for a caller that throws it away."""
    recommender = Recommender(schema, hyperparameters)
    examples = {field.name: _example(field) for field in schema.item}
    attributes = {name: raw for name, raw in examples.items() if raw is not None}
    recommender.put_items((f"item {number}", attributes) for number in range(_ITEMS))
    recommender.put_item("one more", attributes)
    return recommender


def _read(recommender: Recommender) -> None:
    evaluation = LiveEvaluation(1, 1)
    for number in range(3):
        event = Event("user", f"item {number}", 0.0)
        evaluation.note(not number, recommender.engine.place(event.item), evaluation.test(recommender, event))
    recommender.recommend("user", time=0.0)
    recommender.similar("item 0", time=0.0)
    recommender.explain("user", "item 0", time=0.0)


def _example(field: Field) -> Any:
    match field:
        case Category():
            return "value"
        case Categories():
            return ["value"]
        case Number():
            return 1
        case _:
            return None
