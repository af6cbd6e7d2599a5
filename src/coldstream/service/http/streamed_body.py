"""Streaming of a request's body: the application takes part after part, and the body is never held as a whole."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope

from coldstream.service.http.problems import Problem

if TYPE_CHECKING:
    from coldstream.service.http.turned_away import Reason

PROGRESS = "coldstream.progress"
"""Key of a request's `BodyProgress` in its ASGI scope."""


class BodyProgress:
    """State of one request's body, shared by its connection and the application."""

    __slots__ = ("batched", "ended", "is_over", "is_streamed", "kept")

    def __init__(self) -> None:
        self.is_streamed = False
        """Whether the application streams the body. It then answers itself if the connection ends the body early."""
        self.is_over = False
        """Whether a streaming application has taken the last part."""
        self.kept = 0
        """Bytes of an incomplete line or message that a streaming application holds."""
        self.batched = 0
        """Bytes of complete lines that a streaming application holds because it has not written them yet."""
        self.ended: Reason | None = None
        """Why the connection ended the body before its client did; None where it did not."""


def progress_of(scope: Scope) -> BodyProgress:
    """Return the progress of a request's body from its scope; a new one where no connection has set it."""
    progress: BodyProgress = scope.get(PROGRESS) or BodyProgress()
    return progress


class StreamedBody:
    """The body of a request, taken part by part."""

    def __init__(self, receive: Receive, progress: BodyProgress) -> None:
        self._receive, self._progress = receive, progress
        progress.is_streamed = True

    async def part(self) -> bytes | None:
        """Wait for the next part and return it; None after the last. Raises `Problem` if the body was ended early."""
        if self._progress.is_over:
            return None
        message = await self._receive()
        if (reason := self._progress.ended) is not None:
            raise reason.problem()
        if message["type"] == "http.disconnect":
            detail = "the connection ended before the body did; send it again, events under the same event_id"
            raise Problem(HTTPStatus.BAD_REQUEST, detail, "$")
        self._progress.is_over = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    def keep(self, size: int) -> None:
        """Set the number of bytes that are held of an incomplete line or message."""
        self._progress.kept = size
