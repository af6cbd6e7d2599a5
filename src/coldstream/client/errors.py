"""What a client raises."""

from coldstream.errors import ColdstreamError


class ServiceError(ColdstreamError):
    """The service has refused a request; sent again it would be refused again. Nothing was changed."""

    def __init__(self, status: int, detail: str, field: str | None = None) -> None:
        super().__init__(f"{status}: {detail}" if field is None else f"{status}: {field}: {detail}")
        self.status = status
        self.detail = detail
        self.field = field
        """Where in the request, as a path: `$[3].context.mood`."""


class ServiceUnavailable(ColdstreamError):
    """No good answer came, as often as it was tried. What was written may be done or not; sent again it is done once."""

    def __init__(self, detail: str, status: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        """The status of the last answer, such as 503; None where none came."""


class ClientClosed(ColdstreamError, RuntimeError):
    """A client is asked for something after it was closed. Nothing was sent."""
