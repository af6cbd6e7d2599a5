"""Thousands of requests that the OpenAPI document allows, and thousands that it forbids."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from served import PATIENCE, SCHEMA, Served

from coldstream.runtime.verification import verified
from coldstream.storage import stores
from coldstream.storage.view import View

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = {
    GenerationMode.POSITIVE: {"body": 340, "id": 100, "snapshot": 5, "nothing": 5},
    GenerationMode.NEGATIVE: {"body": 180, "id": 100, "snapshot": 20, "nothing": 0},
}
"""Requests per mode and call: by whether there is a body, an id in the path, or nothing to vary; a snapshot takes long."""
MIN_SENT, MIN_ACCEPTED = 5000, 1000
MAX_ROUNDS = 4
"""Times that all calls are tried, each time with other requests: how many are accepted is not ours to decide."""


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
    """Counts requests, and reads from the store itself where the log stands."""

    def __init__(self, address: str, store: View) -> None:
        self._session, self._address, self._store = requests.Session(), address, store
        self.accepted = self.refused = 0
        self.position = store.last()

    @property
    def has_enough(self) -> bool:
        return self.accepted + self.refused >= MIN_SENT and min(self.accepted, self.refused) >= MIN_ACCEPTED

    def send(self, case: schemathesis.Case) -> None:
        response = case.call(base_url=self._address, session=self._session)
        case.validate_response(response, checks=CHECKS)
        before, self.position = self.position, self._store.last()
        if response.status_code >= 400:
            assert self.position == before, f"a refused request changed the log: {case.as_curl_command()}"
            self.refused += 1
        else:
            self.accepted += 1

    def close(self) -> None:
        self._session.close()


def test_what_the_document_allows_works_and_what_it_forbids_changes_nothing(server: Served, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{server.port}"
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    url = f"sqlite:{tmp_path / 'data'}"
    with closing(stores.inspected(url)) as store, closing(Watch(address, store)) as watch:
        for number in range(MAX_ROUNDS):
            for result in schema.get_all_operations():
                assert isinstance(result, Ok)
                operation = result.ok()
                varies = "body" if operation.body else "id" if operation.path_parameters else "nothing"
                varies = "snapshot" if operation.path == "/snapshot" else varies
                for mode, examples in EXAMPLES.items():
                    if examples[varies]:
                        fuzz(watch, operation, mode, examples[varies], number)
            if watch.has_enough:
                break
        assert watch.has_enough, f"{watch.accepted} were accepted and {watch.refused} refused"
        position = watch.position
        ready = requests.get(f"{address}/ready", timeout=PATIENCE).json()
        assert ready["position"] == position  # all that is in the log is known
    assert server.terminate() == 0
    # Had a refused request changed what is known, the log would not lead to the last snapshot.
    with closing(stores.inspected(url)) as store:
        assert store.last() == position
        verdict = verified(store, True, lambda _: None)
    assert verdict.same
    assert verdict.different == []


def fuzz(watch: Watch, operation: schemathesis.APIOperation, mode: GenerationMode, examples: int, number: int) -> None:
    @seed(number)
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case: schemathesis.Case) -> None:
        watch.send(case)

    send()
