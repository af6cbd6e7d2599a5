"""Traces of requests for OpenTelemetry: a span for every one, whose ids stand in every line that is logged meanwhile.

Off unless the environment names a collector, as OpenTelemetry's own variables do. Nothing that a person sent goes into them.
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
"""Either says where the collector is, and turns tracing on."""


class Tracing:
    """Spans of one process, sent by an exporter in the background."""

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
        """An application of one route, with a span around it that continues the caller's."""
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
        """Send what waits, and log as before."""
        logging.setLogRecordFactory(self._factory)
        self._provider.shutdown()

    def _record(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        """A line of the log, which knows the span that it belongs to."""
        record, span = self._factory(*args, **kwargs), self._trace.get_current_span().get_span_context()
        if span.is_valid:
            record.trace_id, record.span_id = f"{span.trace_id:032x}", f"{span.span_id:016x}"
        return record


def tracing_of(environment: Mapping[str, str]) -> Tracing | None:
    """What the environment asks for; None where it names no collector."""
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
