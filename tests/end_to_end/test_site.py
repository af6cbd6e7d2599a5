"""The documentation as a site: built, and looked at with a browser."""

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser import PATIENCE, browser

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    done = subprocess.run([sys.executable, ROOT / "tools" / "documentation"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 links that lead nowhere" in done.stdout
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=ROOT / "build" / "site"))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_reader_finds_the_way_by_role_and_by_search(site: str) -> None:
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": 1400, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(site)
        assert page.locator("h1").first.inner_text().startswith("coldstream")
        text = page.locator("body").inner_text()
        for role in ("For a shop's developer", "For a data scientist", "For a platform engineer"):
            assert role in text
        page.goto(f"{site}/tutorial/")
        assert page.locator("h2").count() >= 8
        page.goto(f"{site}/reference/hyperparameters/")
        assert page.locator("table tr").count() > 20
        page.keyboard.press("/")
        page.keyboard.type("adagrad_window")
        page.get_by_text("Every hyperparameter").last.wait_for(timeout=1000 * PATIENCE)
        assert errors == []
