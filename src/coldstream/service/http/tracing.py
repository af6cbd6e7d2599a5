"""OpenTelemetry traces: a span for every request. Its ids are in every line of the log that the request writes.

Tracing is off unless OpenTelemetry's environment variables name a collector. Spans hold nothing that a person sent.
"""

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coldstream.errors import InvalidInput

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Environment variables with the URL of the collector; either turns tracing on."""


class Tracing:
    """Tracing of one process: an exporter sends its spans in the background."""

    def __init__(self, exporter: "SpanExporter") -> None:
        from opentelemetry import propagate, trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(resource=Resource.create({"service.name": _name()}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("coldstream")
        self._propagate, self._trace = propagate, trace
        self._factory = logging.getLogRecordFactory()
        logging.setLogRecordFactory(self._record)

    def traced(self, app: ASGIApp, method: str, path: str) -> ASGIApp:
        """Wrap the application of a route in a span, whose parent is the span that the request's headers name."""
        kind, error = self._trace.SpanKind.SERVER, self._trace.Status(self._trace.StatusCode.ERROR)
        attributes = {"http.request.method": method, "http.route": path}

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            parent = self._propagate.extract(headers)
            with self._tracer.start_as_current_span(f"{method} {path}", parent, kind, attributes) as span:

                async def sent(message: Message) -> None:
                    if message["type"] == "http.response.start":
                        span.set_attribute("http.response.status_code", message["status"])
                        if message["status"] >= 500:
                            span.set_status(error)
                    await send(message)

                await app(scope, receive, sent)

        return call

    def close(self) -> None:
        """Send the spans that wait, and log without ids of spans again."""
        logging.setLogRecordFactory(self._factory)
        self._provider.shutdown()

    def _record(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        """Make a record of the log with the ids of the current span, if there is one."""
        record, span = self._factory(*args, **kwargs), self._trace.get_current_span().get_span_context()
        if span.is_valid:
            record.trace_id, record.span_id = f"{span.trace_id:032x}", f"{span.span_id:016x}"
        return record


def tracing_of(environment: Mapping[str, str]) -> Tracing | None:
    """Return the tracing that the environment asks for; None where it names no collector, or disables tracing.

    Raises `InvalidInput` if the packages for tracing are not installed.
    """
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(map(environment.get, ENDPOINTS)):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        named = next(name for name in ENDPOINTS if environment.get(name))
        message = f"{named} is set, and {error.name} is not installed"
        raise InvalidInput(f"{message}; pip install 'coldstream[telemetry]', or unset it") from error
    return Tracing(OTLPSpanExporter())


def _name() -> str:
    return os.environ.get("OTEL_SERVICE_NAME", "coldstream")
