"""The commands of the README and of the guide, sent to a real server in the order they are printed."""

import json
import re
import shlex
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest
from served import Served

ROOT = Path(__file__).parents[2]


def requests_in(page: Path) -> list[tuple[str, str, dict[str, str], str | None]]:
    """Method, path, headers and body of every curl command in a page's shell blocks."""
    found = []
    for block in re.findall(r"```(?:sh|shell)\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] != ["curl"]:
                continue
            options = {name: words[n + 1] for n, name in enumerate(words) if name.startswith("-")}
            (address,) = (word for word in words if word.startswith("localhost:8000"))
            body = options.get("-d")
            headers = dict(words[n + 1].split(": ", 1) for n, word in enumerate(words) if word == "-H")
            method = options.get("-X", "GET" if body is None else "POST")
            found.append((method, address.removeprefix("localhost:8000"), headers, body))
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


@pytest.mark.parametrize("page", ["docs/guides/service.md", "docs/guides/settings.md"])
def test_a_key_is_sent_as_the_guides_say(page: str, tmp_path: Path) -> None:
    keys, command = tmp_path / "keys.toml", (sys.executable, "-m", "coldstream", "keys", "add", "shop", "--scopes", "read")
    added = subprocess.run([*command, "--keys", str(keys)], capture_output=True, text=True, check=True)
    with_key = [one for one in requests_in(ROOT / page) if "authorization" in {name.lower() for name in one[2]}]
    assert with_key
    flags = ("--schema", ROOT / "examples/schema.toml", "--data", tmp_path / "data", "--keys", keys)
    with Served(*flags, folder=tmp_path) as server:
        server.logged("ready")
        for method, path, headers, body in with_key:
            for key, status in ((added.stdout.strip(), 200), ("", 401)):
                connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request(method, path, body, {n: value.replace("$KEY", key) for n, value in headers.items()})
                response = connection.getresponse()
                assert (response.status, key) == (status, key), response.read()
                connection.close()


def test_the_guide_lists_every_call() -> None:
    from coldstream.service.http.routes import ROUTES

    text = (ROOT / "docs/guides/service.md").read_text()
    for route in ROUTES:
        assert f"`{route.method} {route.path}`" in text, route
