"""The commands of the README and of the guide, sent to a real server in the order they are printed."""

import json
import re
import shlex
from http.client import HTTPConnection
from pathlib import Path

import pytest
from served import Served

ROOT = Path(__file__).parents[2]


def requests_in(page: Path) -> list[tuple[str, str, dict[str, str], str | None]]:
    """Method, path, headers and body of every curl command in a page's shell blocks."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] != ["curl"]:
                continue
            options = {name: words[n + 1] for n, name in enumerate(words) if name.startswith("-")}
            (address,) = (word for word in words if word.startswith("localhost:8000"))
            body = options.get("-d")
            name, _, value = options.get("-H", "accept: */*").partition(": ")
            method = options.get("-X", "GET" if body is None else "POST")
            found.append((method, address.removeprefix("localhost:8000"), {name: value}, body))
    return found


@pytest.mark.parametrize("page", ["README.md", "docs/guides/service.md"])
def test_what_is_printed_works(page: str, tmp_path: Path) -> None:
    requests = requests_in(ROOT / page)
    assert len(requests) >= 4
    with Served("--schema", ROOT / "examples/schema.toml", "--data", tmp_path / "data", folder=tmp_path) as server:
        connection = HTTPConnection("127.0.0.1", server.ready().port, timeout=60)
        answers = []
        for method, path, headers, body in requests:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            answers.append((path, json.loads(response.read())))
            assert response.status == 200, answers[-1]
        connection.close()
    recommended = next(answer for path, answer in answers if path == "/recommend")
    assert recommended["items"]
    assert recommended["items"][0]["why"]


def test_the_guide_lists_every_call() -> None:
    from coldstream.service.routes import ROUTES

    text = (ROOT / "docs/guides/service.md").read_text()
    for route in ROUTES:
        assert f"`{route.method} {route.path}`" in text, route
