"""coldstream: an online, context-aware item recommender that learns from every interaction the moment it happens."""

from coldstream.bounds import Bounds
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
from coldstream.model.explanation import Explanation, Term
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.recommender import Recommendation, Recommender
from coldstream.rules import Boost, Rules
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
