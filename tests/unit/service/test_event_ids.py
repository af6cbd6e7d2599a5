"""Event ids of clients, which may not be those of messages of a broker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api import Api

from coldstream.client import Client, NewEvent
from coldstream.runtime.records import Interaction

LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("ids")).start()
    yield served
    served.stop()


def event(event_id: str | None) -> dict[str, Any]:
    return {"user": "u", "item": "i", "event_id": event_id}


@pytest.mark.parametrize("claimed", ["nats:SHOP:17", "kafka:shop:0:17", "outbox:orders:17:x", "nats:"])
def test_an_id_that_names_a_message_of_a_broker_is_refused(api: Api, claimed: str) -> None:
    before = api.service.learner.position
    one, many = api.call("POST", "/events", event(claimed)), api.call("POST", "/events", [event("a"), event(claimed)])
    assert (one.status, one.json["field"], many.status, many.json["field"]) == (422, "$.event_id", 422, "$[1].event_id")
    assert one.json["detail"] == (
        "$.event_id must not begin with one of nats:, kafka:, outbox:, which name messages of a broker, "
        f"got {claimed!r}; choose an id with another prefix, or leave it out"
    )
    assert api.service.learner.position == before


@pytest.mark.parametrize("free", ["nats", "natsy:1", "NATS:1", ":", "order-17", "my:nats:1", None])
def test_other_ids_are_taken(api: Api, free: str | None) -> None:
    assert api.call("POST", "/events", event(free)).json["learned"] == 1


def test_a_line_with_such_an_id_is_refused_and_the_others_are_taken(api: Api) -> None:
    lines = [event("line-1"), event("nats:SHOP:18"), event("line-2")]
    body = b"\n".join(json.dumps(one).encode() for one in lines)
    answer = api.call("POST", "/events", raw=body, headers=LINES).json
    assert (answer["taken"], answer["refused"]) == (2, 1)
    (refusal,) = answer["refusals"]
    assert (refusal["line"], refusal["field"]) == (2, "$.event_id")
    assert "got 'nats:SHOP:18'; choose an id with another prefix" in refusal["detail"]
    sent_by_reader = api.call("POST", "/events", raw=body, headers={**LINES, "coldstream-source": "nats"}).json
    assert (sent_by_reader["taken"], sent_by_reader["duplicates"], sent_by_reader["refused"]) == (1, 2, 0)


def test_a_reader_sends_ids_of_its_own_kind_of_source(api: Api) -> None:
    for source, status in (("nats", 200), ("kafka", 422), ("", 422), ("nats:SHOP", 422)):
        answer = api.call("POST", "/events", [event("nats:SHOP:19:x")], {"coldstream-source": source})
        assert answer.status == status, source
    twice = api.call("POST", "/events", event("x"), {"coldstream-source": "nats"}, again={"coldstream-source": "kafka"})
    assert twice.status == 400


def test_the_client_says_which_source_it_reads() -> None:
    sent = list[str | None]()

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("coldstream-source"))
        return httpx.Response(200, json={"learned": 1, "duplicates": 0, "position": 2})

    client = Client(transport=httpx.MockTransport(answer))
    client.learn(NewEvent("u", "i", event_id="nats:SHOP:1:x"), source="nats")
    client.learn(NewEvent("u", "i"))
    assert sent == ["nats", None]


def test_a_log_with_ids_of_an_earlier_release_is_replayed(tmp_path: Path) -> None:
    first = Api(tmp_path).start()
    first.run(first.service.writer.write([Interaction("old", "i", 1.0, event_id="nats:SHOP:17")]))
    position = first.service.learner.position
    first.stop()
    second = Api(tmp_path).start()
    try:
        assert second.service.learner.position == position
        assert second.call("GET", "/users/old").status == 200
        again = second.call("POST", "/events", [event("nats:SHOP:17")], {"coldstream-source": "nats"})
        assert again.json["duplicates"] == 1
    finally:
        second.stop()
