"""Lines of which a service took some are sent again from the one that its answer names."""

import httpx
import pytest

from coldstream.client import Client, NewEvent, Retries, ServiceError, ServiceUnavailable

EVENTS = [NewEvent("u", f"i{n}", event_id=f"e{n}") for n in range(5)]


def client(answers: list[tuple[int, dict[str, object]]], sent: list[int]) -> Client:
    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(len(request.content.splitlines()))
        status, document = answers.pop(0)
        return httpx.Response(status, json=document)

    return Client(transport=httpx.MockTransport(answer), retries=Retries(most=2, first=0.0))


def early(taken: int, duplicates: int, refused: list[int], next_line: int) -> dict[str, object]:
    refusals = [{"line": line, "detail": "no"} for line in refused]
    counts = {"taken": taken, "duplicates": duplicates, "refused": len(refused), "refusals": refusals}
    return {"status": 503, "detail": "stopping", "next_line": next_line, "position": 7, **counts}


def test_an_import_goes_on_behind_the_lines_that_were_taken() -> None:
    sent = list[int]()
    last = {"lines": 2, "taken": 1, "duplicates": 0, "refused": 1, "refusals": [{"line": 2, "detail": "no"}], "position": 9}
    answers = [(503, early(1, 0, [2], 3)), (408, early(0, 1, [], 2)), (200, last)]
    taken = client(answers, sent).import_events(EVENTS)
    assert sent == [5, 3, 2]
    assert (taken.lines, taken.taken, taken.duplicates, taken.refused) == (5, 2, 1, 2)
    assert [one.line for one in taken.refusals] == [2, 5]


@pytest.mark.parametrize(
    ("status", "next_line", "error", "times"), [(503, 1, ServiceUnavailable, 2), (413, 3, ServiceError, 1)]
)
def test_an_answer_of_no_lines_is_tried_again_and_a_refusal_is_told(
    status: int, next_line: int, error: type[Exception], times: int
) -> None:
    sent = list[int]()
    with pytest.raises(error):
        client([(status, early(0, 0, [], next_line))] * 2, sent).import_events(EVENTS)
    assert sent == [5] * times


@pytest.mark.parametrize("next_line", [0, -5, 7, 10**9])
def test_a_line_that_was_not_sent_is_no_line_to_go_on_with(next_line: int) -> None:
    sent = list[int]()
    with pytest.raises(ServiceUnavailable):
        client([(503, early(0, 0, [], next_line))] * 2, sent).import_events(EVENTS)
    assert sent == [5, 5]


@pytest.mark.parametrize("lines", [0, 6])
def test_an_answer_about_other_lines_than_were_sent_is_no_answer(lines: int) -> None:
    answer = {"lines": lines, "taken": lines, "duplicates": 0, "refused": 0, "refusals": [], "position": 9}
    with pytest.raises(ServiceError, match=f"the answer is about {lines} of 5 lines; is the url that of a service"):
        client([(200, answer)], []).import_events(EVENTS)


def test_an_answer_that_is_not_compressed_as_it_says_is_tried_again() -> None:
    sent = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        return httpx.Response(200, content=b"no gzip", headers={"content-encoding": "gzip"})

    with pytest.raises(ServiceUnavailable, match="DecodingError"):
        Client(transport=httpx.MockTransport(answer), retries=Retries(most=2, first=0.0)).learn(EVENTS)
    assert sent == ["/events"] * 2
