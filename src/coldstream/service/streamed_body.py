"""The body of a request in parts, for an application that takes each part as it comes, however many there are."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope

from coldstream.service.http.problems import Problem

if TYPE_CHECKING:
    from coldstream.service.http.turned_away import Reason

PROGRESS = "coldstream.progress"
"""The key of a request's `BodyProgress` in its scope."""


class BodyProgress:
    """What the connection and the application tell each other about the body of one request."""

    __slots__ = ("batched", "ended", "is_over", "is_streamed", "kept")

    def __init__(self) -> None:
        self.is_streamed = False
        """Whether the application takes parts as they come, and answers itself where the connection ends the body."""
        self.is_over = False
        """Whether a streaming application has taken the last part."""
        self.kept = 0
        """Bytes of parts it has taken that a streaming application holds because their line, or message, is not whole …"""
        self.batched = 0
        """… and bytes of lines that are not written yet."""
        self.ended: Reason | None = None
        """Why the connection ended the body before its client did."""


def progress_of(scope: Scope) -> BodyProgress:
    """The progress of a request's body; one that no connection looks at, where there is none."""
    progress: BodyProgress = scope.get(PROGRESS) or BodyProgress()
    return progress


class StreamedBody:
    """The parts of a body. Raises `Problem` where the connection, its client or the service ends the body early."""

    def __init__(self, receive: Receive, progress: BodyProgress) -> None:
        self._receive, self._progress = receive, progress
        progress.is_streamed = True

    async def part(self) -> bytes | None:
        """Wait for the next part and return it; None after the last."""
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
        """Note how many bytes are held of what is not whole."""
        self._progress.kept = size
