"""Spans and logs that belong together; and nothing at all unless somebody asks."""

import asyncio
import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from coldstream.errors import InvalidInput
from coldstream.service.http.logs import JsonLines
from coldstream.service.http.tracing import Tracing, tracing_of

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def call(tracing: Tracing, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        logging.getLogger("coldstream.access").warning("request", extra={"call": "POST /recommend"})
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        pass

    asyncio.run(tracing.traced(app, "POST", "/users/{id}")({"headers": headers}, None, send))  # type: ignore[arg-type]


def test_a_request_is_a_span_that_continues_the_callers_and_its_logs_name_it(caplog: pytest.LogCaptureFixture) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter)
    try:
        call(tracing, 200, [(b"traceparent", PARENT.encode()), (b"authorization", b"Bearer secret")])
        call(tracing, 503, [])
        tracing._provider.force_flush()
    finally:
        tracing.close()
    good, bad = exporter.get_finished_spans()
    assert good.name == "POST /users/{id}"
    assert f"{good.context.trace_id:032x}" == PARENT.split("-")[1]
    assert dict(good.attributes or {}) == {
        "http.request.method": "POST", "http.route": "/users/{id}", "http.response.status_code": 200
    }  # fmt: skip
    assert bad.parent is None
    assert not bad.status.is_ok
    assert "secret" not in good.to_json()
    first, second = (json.loads(JsonLines().format(record)) for record in caplog.records)
    assert first["trace_id"] == PARENT.split("-")[1]
    assert first["span_id"] == f"{good.context.span_id:016x}"
    assert second["trace_id"] == f"{bad.context.trace_id:032x}"
    logging.getLogger("coldstream").warning("afterwards")
    assert "trace_id" not in json.loads(JsonLines().format(caplog.records[-1]))


@pytest.mark.parametrize("environment", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, {"OTEL_SERVICE_NAME": "shop"}])
def test_it_is_off_unless_a_collector_is_named(environment: dict[str, str]) -> None:
    assert tracing_of(environment) is None
    assert tracing_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}) is None


def test_it_is_not_even_loaded_then() -> None:
    loaded = "[name for name in sys.modules if name.startswith('opentelemetry')]"
    code = f"import sys, coldstream.service.http.app; print({loaded})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_without_the_library_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InvalidInput, match=r"OTLP_ENDPOINT is set, .*pip install 'coldstream\[telemetry\]'"):
        tracing_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
