"""coldstream: an online, context-aware item recommender that learns from every interaction the moment it happens."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coldstream.bounds.bounds import Bounds
    from coldstream.config import Hyperparameters
    from coldstream.errors import ColdstreamError, Diverged, InvalidInput, InvalidSchema, InvalidSnapshot, UnknownId
    from coldstream.events.availability import Availability
    from coldstream.events.event import Event
    from coldstream.features.feedback import Feedback
    from coldstream.features.fields import (
        Again,
        Categories,
        Category,
        Follows,
        Id,
        Image,
        LastAttribute,
        LastItem,
        LastItems,
        LastTimePart,
        Number,
        TimePart,
        Title,
        Together,
        Trend,
    )
    from coldstream.features.schema import Schema
    from coldstream.lists.explanation import Explanation, Term
    from coldstream.lists.rules import Boost, Rules
    from coldstream.lists.serving import Recommendation
    from coldstream.model.factorization_machine import FactorizationMachine
    from coldstream.recommender import Recommender
    from coldstream.scoring.ranking import Rank

__version__ = "0.1.0"

__all__ = [
    "Again",
    "Availability",
    "Boost",
    "Bounds",
    "Categories",
    "Category",
    "ColdstreamError",
    "Diverged",
    "Event",
    "Explanation",
    "FactorizationMachine",
    "Feedback",
    "Follows",
    "Hyperparameters",
    "Id",
    "Image",
    "InvalidInput",
    "InvalidSchema",
    "InvalidSnapshot",
    "LastAttribute",
    "LastItem",
    "LastItems",
    "LastTimePart",
    "Number",
    "Rank",
    "Recommendation",
    "Recommender",
    "Rules",
    "Schema",
    "Term",
    "TimePart",
    "Title",
    "Together",
    "Trend",
    "UnknownId",
]

_HOMES = {
    "Again": "coldstream.features.fields",
    "Availability": "coldstream.events.availability",
    "Boost": "coldstream.lists.rules",
    "Bounds": "coldstream.bounds.bounds",
    "Categories": "coldstream.features.fields",
    "Category": "coldstream.features.fields",
    "ColdstreamError": "coldstream.errors",
    "Diverged": "coldstream.errors",
    "Event": "coldstream.events.event",
    "Explanation": "coldstream.lists.explanation",
    "FactorizationMachine": "coldstream.model.factorization_machine",
    "Feedback": "coldstream.features.feedback",
    "Follows": "coldstream.features.fields",
    "Hyperparameters": "coldstream.config",
    "Id": "coldstream.features.fields",
    "Image": "coldstream.features.fields",
    "InvalidInput": "coldstream.errors",
    "InvalidSchema": "coldstream.errors",
    "InvalidSnapshot": "coldstream.errors",
    "LastAttribute": "coldstream.features.fields",
    "LastItem": "coldstream.features.fields",
    "LastItems": "coldstream.features.fields",
    "LastTimePart": "coldstream.features.fields",
    "Number": "coldstream.features.fields",
    "Rank": "coldstream.scoring.ranking",
    "Recommendation": "coldstream.lists.serving",
    "Recommender": "coldstream.recommender",
    "Rules": "coldstream.lists.rules",
    "Schema": "coldstream.features.schema",
    "Term": "coldstream.lists.explanation",
    "TimePart": "coldstream.features.fields",
    "Title": "coldstream.features.fields",
    "Together": "coldstream.features.fields",
    "Trend": "coldstream.features.fields",
    "UnknownId": "coldstream.errors",
}
"""Where each name lives. A module is loaded when its name is first asked for: a client of the service needs no kernels."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'coldstream' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
