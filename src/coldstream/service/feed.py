"""What brings events to a service by itself, beside those that clients send."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from coldstream.service.service import Service


class Feed(Protocol):
    """It begins when the service is ready, and has ended before the service does."""

    def start(self, service: "Service") -> None:
        """Begin, on the event loop of the service."""
        ...

    async def stop(self) -> None:
        """Let go of everything; what was not learned is not lost."""
        ...
