"""Logs are JSON lines that hold nothing of persons."""

import json
import logging

from coldstream.service.http.logs import JsonLines


def line(message: str, error: BaseException | None = None, **facts: object) -> dict[str, object]:
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("a.b", logging.INFO, __file__, 1, message, (), info)
    vars(record).update(facts)
    return json.loads(JsonLines().format(record))


def test_a_line_is_one_json_object_with_its_facts() -> None:
    found = line("a snapshot\nwas taken", position=7)
    assert "\n" not in JsonLines().format(logging.makeLogRecord({"msg": "two\nlines"}))
    assert (found["event"], found["level"], found["from"], found["position"]) == ("a snapshot\nwas taken", "info", "a.b", 7)
    assert str(found["time"]).endswith("+00:00")


def test_an_error_tells_where_it_happened_and_not_what_somebody_sent() -> None:
    try:
        {}["Ann-Marie"]
    except KeyError as error:
        found = line("a request failed", error)
    assert found["error"] == "KeyError"
    assert "test_an_error_tells" in str(found["trace"])
    assert "Ann-Marie" not in json.dumps(found)
