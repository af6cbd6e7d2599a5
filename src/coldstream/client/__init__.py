"""Clients of the service, blocking and for asyncio. They import neither the numeric kernels nor NumPy."""

from coldstream.client.answers import Found, Page, Recommendation, Recommendations
from coldstream.client.async_client import AsyncClient
from coldstream.client.background import BackgroundEvents
from coldstream.client.call import Retry
from coldstream.client.client import Client
from coldstream.client.errors import ClientClosed, ServiceError, ServiceUnavailable
from coldstream.client.retries import Retries
from coldstream.service.messages.core import NewEvent, NewItem, NewUser
from coldstream.service.messages.recommend import (
    BoostBody,
    PinBody,
    RecommendRequest,
    RecommendResponse,
    RulesBody,
)

__all__ = [
    "AsyncClient",
    "BackgroundEvents",
    "BoostBody",
    "Client",
    "ClientClosed",
    "Found",
    "NewEvent",
    "NewItem",
    "NewUser",
    "Page",
    "PinBody",
    "RecommendRequest",
    "RecommendResponse",
    "Recommendation",
    "Recommendations",
    "Retries",
    "Retry",
    "RulesBody",
    "ServiceError",
    "ServiceUnavailable",
]
