"""Clients of the service, for programs that wait and for those on an event loop; they load neither kernels nor NumPy."""

from coldstream.client.async_client import AsyncClient
from coldstream.client.background import BackgroundEvents
from coldstream.client.client import Client
from coldstream.client.errors import ClientClosed, ServiceError, ServiceUnavailable
from coldstream.client.retries import Retries
from coldstream.service.messages.core import NewEvent, NewItem, NewUser
from coldstream.service.messages.recommend import RecommendRequest, RecommendResponse

__all__ = [
    "AsyncClient",
    "BackgroundEvents",
    "Client",
    "ClientClosed",
    "NewEvent",
    "NewItem",
    "NewUser",
    "RecommendRequest",
    "RecommendResponse",
    "Retries",
    "ServiceError",
    "ServiceUnavailable",
]
