"""Thousands of requests that the OpenAPI document allows, and thousands that it forbids."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from served import SCHEMA, Served

from coldstream.runtime.verification import verified
from coldstream.storage import stores

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = {"body": 220, "id": 100, "nothing": 5}
"""Requests per call and mode: by whether there is a body, an id in the path, or nothing to vary."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    arguments = (
        "--schema",
        tmp_path / "schema.toml",
        "--data",
        tmp_path / "data",
        "--set",
        "factors=4",
        "--set",
        "negatives=5",
    )
    with Served(*arguments, folder=tmp_path) as served:
        yield served.ready()


class Watch:
    """Counts requests, and knows where the log stands."""

    def __init__(self, address: str) -> None:
        self._session, self._address = requests.Session(), address
        self.sent = {"done": 0, "refused": 0}
        self.position = self._position()

    def send(self, case: schemathesis.Case) -> None:
        response = case.call(base_url=self._address, session=self._session)
        case.validate_response(response, checks=CHECKS)
        before, self.position = self.position, self._position()
        if response.status_code >= 400:
            assert self.position == before, f"a refused request changed the log: {case.as_curl_command()}"
        self.sent["refused" if response.status_code >= 400 else "done"] += 1

    def close(self) -> None:
        self._session.close()

    def _position(self) -> int:
        return int(self._session.get(f"{self._address}/ready").json()["position"])


def test_what_the_document_allows_works_and_what_it_forbids_changes_nothing(server: Served, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{server.port}"
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    with closing(Watch(address)) as watch:
        for result in schema.get_all_operations():
            assert isinstance(result, Ok)
            operation = result.ok()
            varies = "body" if operation.body else "id" if operation.path_parameters else "nothing"
            modes = (GenerationMode.POSITIVE,) if varies == "nothing" else tuple(GenerationMode)
            for mode in modes:
                fuzz(watch, operation, mode, EXAMPLES[varies])
        assert sum(watch.sent.values()) >= 5000
        assert min(watch.sent.values()) >= 1000
        position = watch.position
    assert server.terminate() == 0
    # Had a refused request changed what is known, the log would not lead to the last snapshot.
    with closing(stores.inspected(f"sqlite:{tmp_path / 'data'}")) as store:
        assert store.last() == position
        verdict = verified(store, True, lambda _: None)
    assert verdict.same
    assert verdict.different == []


def fuzz(watch: Watch, operation: schemathesis.APIOperation, mode: GenerationMode, examples: int) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=bool(os.environ.get("CI")),
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case: schemathesis.Case) -> None:
        watch.send(case)

    send()
