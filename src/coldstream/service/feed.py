"""The contract of a feed: a source that brings events to a service besides those that clients send."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from coldstream.service.service import Service


class Feed(Protocol):
    """A source of events. The service starts it once it is ready, and stops it before it stops itself."""

    def start(self, service: "Service") -> None:
        """Begin to read events, on the event loop of the service."""
        ...

    async def stop(self) -> None:
        """Stop reading and release all resources. Events that were not learned yet are not lost."""
        ...
