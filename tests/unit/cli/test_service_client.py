"""Lines of which a service took some are sent again from the one that its answer names."""

from typing import Any

import pytest

from coldstream.cli.service_client import ServiceClient


def test_an_answer_that_ends_early_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {
        "status": 503,
        "taken": 1,
        "duplicates": 0,
        "refused": 1,
        "refusals": [{"line": 2, "detail": "a"}],
        "next_line": 3,
    }
    second = {"status": 408, "taken": 0, "duplicates": 1, "refused": 0, "refusals": [], "next_line": 2}
    last = {"lines": 2, "taken": 1, "duplicates": 0, "refused": 1, "refusals": [{"line": 2, "detail": "b"}], "position": 9}
    answers, sent = [(503, first), (408, second), (200, last)], list[bytes]()

    def answer(_: Any, __: str, ___: str, body: bytes) -> tuple[int, Any]:
        sent.append(body)
        return answers.pop(0)

    monkeypatch.setattr(ServiceClient, "answer", answer)
    status, answered = ServiceClient("http://127.0.0.1:1", None).send("/events", b"1\n2\n3\n4\n5\n")
    assert sent == [b"1\n2\n3\n4\n5\n", b"3\n4\n5\n", b"4\n5\n"]
    assert (status, answered["taken"], answered["duplicates"], answered["refused"]) == (200, 2, 1, 2)
    assert [one["line"] for one in answered["refusals"]] == [2, 5]


@pytest.mark.parametrize(("status", "line"), [(503, 1), (413, 3)])
def test_what_does_not_pass_is_told(monkeypatch: pytest.MonkeyPatch, status: int, line: int) -> None:
    problem = {"status": status, "detail": "no", "taken": line - 1, "next_line": line}
    monkeypatch.setattr(ServiceClient, "answer", lambda *_, **__: (status, problem))
    assert ServiceClient("http://127.0.0.1:1", None).send("/events", b"1\n2\n3\n") == (status, problem)
