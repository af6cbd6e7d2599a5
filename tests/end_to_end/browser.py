"""A real browser on a real page. Run as a program it makes the pictures of the documentation."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

PATIENCE = 180.0
"""Seconds; the first start may compile."""

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    path = shutil.which("chromium")
    assert path is not None, "there is no Chromium; install the package chromium, or run make chromium as root"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=1000 * PATIENCE)
        try:
            yield opened
        finally:
            opened.close()


def drawn(page: Page) -> int:
    """How many events the curves show."""
    return int(page.get_by_test_id("recall-chart").get_attribute("data-events") or 0)


def wait_for_events(page: Page, events: int) -> None:
    """Come back when the curves show more events than that. The page lets nobody evaluate anything in it."""
    end = time.monotonic() + PATIENCE
    while drawn(page) <= events:
        assert time.monotonic() < end, f"the curves stand at {drawn(page)} events"
        page.wait_for_timeout(100)


class Demo:
    """`coldstream demo` as a process."""

    def __init__(self, data: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "coldstream", "demo", "--data", str(data), "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"http://\S+", line):
                self.address = found[0]
                break
        else:
            raise AssertionError(f"the demo did not start: {self.said}")

    def interrupt(self) -> int:
        """Press Ctrl-C, if it still runs; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        with self.process.stdout as out:
            self.said += out.readlines()
        return self.process.wait(PATIENCE)


def pictures(folder: Path) -> None:
    """Watch the change of taste, and take the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, browser() as opened:
        demo = Demo(Path(data), "--speed", "120")
        try:
            page = opened.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
            page.goto(demo.address)
            wait_for_events(page, 2600)
            page.screenshot(path=folder / "page.png")
            page.get_by_test_id("invent").click()
            page.get_by_test_id("field-context-state").fill("32")
            page.get_by_test_id("field-context-age").fill("0.8")
            page.get_by_test_id("recommend").click()
            page.get_by_test_id("why-button").first.click()
            page.get_by_test_id("why").wait_for()
            page.set_viewport_size({"width": 1280, "height": 1200})  # the whole section, or its end is not painted
            page.wait_for_timeout(1000)
            page.locator("section", has=page.get_by_test_id("try")).screenshot(path=folder / "try-it.png")
            phone = opened.new_page(viewport={"width": 360, "height": 780}, color_scheme="dark")
            phone.goto(demo.address)
            phone.wait_for_timeout(4000)
            phone.screenshot(path=folder / "phone.png")
        finally:
            demo.interrupt()


if __name__ == "__main__":
    pictures(Path(sys.argv[1]))
