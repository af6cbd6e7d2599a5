"""Errors raised by the clients."""

from coldstream.errors import ColdstreamError


class ServiceError(ColdstreamError):
    """The service refused a request, and would refuse it again. Nothing was changed."""

    def __init__(self, status: int, detail: str, field: str | None = None) -> None:
        super().__init__(f"{status}: {detail}" if field is None else f"{status}: {field}: {detail}")
        self.status = status
        self.detail = detail
        self.field = field
        """The location of the error in the request, as a path such as `$[3].context.mood`."""


class ServiceUnavailable(ColdstreamError):
    """No usable answer came within the retries.

    A write may have been executed; sent again, it is still executed only once.
    """

    def __init__(self, detail: str, status: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        """The status of the last response, such as 503; None if there was none."""


class ClientClosed(ColdstreamError, RuntimeError):
    """A closed client was called. Nothing was sent."""
