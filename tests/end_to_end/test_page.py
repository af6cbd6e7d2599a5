"""The page of a running demo, in a real browser."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from browser import PATIENCE, Demo, browser, drawn, wait_for_events
from playwright.sync_api import Browser, Page, expect
from served import SCHEMA, Served

from coldstream.service.http.keys import Key, Keys, hashed
from coldstream.storage import stores

expect.set_options(timeout=1000 * PATIENCE)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    running = Demo(tmp_path / "data", "--speed", "100")
    yield running
    running.interrupt()


@pytest.fixture
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def opened(chromium: Browser, demo: Demo) -> tuple[Page, list[str]]:
    page, errors = chromium.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(demo.address)
    return page, errors


def test_somebody_watches_tries_and_sees_the_service_go(demo: Demo, chromium: Browser, tmp_path: Path) -> None:
    page, errors = opened(chromium, demo)
    wait_for_events(page, 100)
    expect(page.get_by_test_id("recall-chart")).to_have_class(re.compile("drawn"))
    wait_for_events(page, drawn(page) + 100)
    expect(page.get_by_test_id("verdict")).to_have_attribute("data-state", re.compile("ahead|early|behind"))
    for tile in ("events", "recommendations", "latency", "features", "model", "bounds", "audience", "position", "snapshot"):
        expect(page.get_by_test_id(f"tile-{tile}")).to_contain_text(re.compile(r"\w"))

    page.get_by_test_id("invent").click()
    page.get_by_test_id("field-context-state").fill("32")
    page.get_by_test_id("recommend").click()
    listed = page.get_by_test_id("recommendation")
    expect(listed).to_have_count(5)
    scores = page.get_by_test_id("score").all_text_contents()
    page.get_by_test_id("why-button").first.click()
    why = page.get_by_test_id("why")
    expect(why).to_be_visible()
    assert float(why.get_attribute("data-sum") or "nan") == pytest.approx(
        float(why.get_attribute("data-score") or "nan"), rel=1e-6, abs=1e-6
    )

    user = page.get_by_test_id("user").input_value()
    page.get_by_test_id("interact").last.click()
    expect(page.get_by_test_id("score").first).not_to_have_text(scores[0])
    response = page.request.get(f"{demo.address}users/{user}")
    assert response.status == 200

    page.get_by_test_id("feature").fill("item.id=ad0")
    page.get_by_test_id("feature-submit").click()
    expect(page.get_by_test_id("nearest").get_by_test_id("feature-row").first).to_be_visible()
    page.get_by_test_id("shown").get_by_role("button", name="Refresh").click()
    expect(page.get_by_test_id("shown-row")).to_have_count(5)
    expect(page.get_by_test_id("shown-row").last).to_have_attribute("title", re.compile("^1 of "))
    page.get_by_test_id("catalogue-search").fill("ad3")
    expect(page.get_by_test_id("catalogue-item")).to_have_count(1)
    assert errors == []

    server = subprocess.run(["pgrep", "-f", f"serve --schema {tmp_path}"], capture_output=True, text=True, check=True)
    os.kill(int(server.stdout.split()[0]), signal.SIGKILL)
    expect(page.get_by_test_id("banner")).to_be_visible()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "lost")
    assert demo.process.wait(PATIENCE) == 2  # it says so, and does not wait for nobody


TITLED = """
[user]
id = { kind = "id" }
[item]
id = { kind = "id" }
title = { kind = "category" }
genre = { kind = "set" }
[context]
device = { kind = "category" }
distance = { kind = "number", low = 0, high = 50 }
mood = { kind = "number", center = 10, scale = 5 }
age = { kind = "number", bins = [18, 35] }
"""

PHONE = {"width": 360, "height": 780}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[str]:
    """The address of a service whose items have titles."""
    (tmp_path / "schema.toml").write_text(TITLED)
    with Served("--schema", tmp_path / "schema.toml", "--data", tmp_path / "data", folder=tmp_path) as server:
        client = server.ready().client()
        titles = [{"id": f"m{n}", "attributes": {"title": f"Film {n}", "genre": ["Drama"]}} for n in range(11)]
        client.done("POST", "/items", [*titles, {"id": "m11"}])
        events = [{"user": f"u{n}", "item": f"m{n % 12}", "context": {"device": "phone"}} for n in range(60)]
        client.done("POST", "/events", events)
        yield f"http://127.0.0.1:{server.port}/"


def test_what_somebody_needs_to_know_stands_where_it_is_needed(shop: str, chromium: Browser) -> None:
    page = chromium.new_page()
    page.goto(shop)
    wait_for_events(page, 0)

    # Titles and attributes, with the id beside them
    page.get_by_test_id("user").fill("somebody")
    expect(page.get_by_test_id("hint-context-device")).to_contain_text("phone")
    expect(page.get_by_test_id("hint-context-distance")).to_contain_text("from 0 to 50")
    expect(page.get_by_test_id("hint-context-mood")).to_contain_text("from 5 to 15")
    expect(page.get_by_test_id("hint-context-age")).to_contain_text("18, 35")
    page.get_by_test_id("count").fill("12")
    page.get_by_test_id("recommend").click()
    names = page.get_by_test_id("item-name")
    expect(names).to_have_count(12)
    texts = names.all_inner_texts()
    assert sum("Film" in text and "Drama" in text and "m" in text for text in texts) == 11
    assert any(text.strip() == "m11" for text in texts)

    # A bar is as long as its score, from zero
    scores = [float(text.replace("−", "-")) for text in page.get_by_test_id("score").all_inner_texts()]
    widths = [
        float(re.search(r"width: ([\d.]+)%", bar.locator("span").get_attribute("style") or "")[1])  # type: ignore[index]
        for bar in page.get_by_test_id("score-bar").all()
    ]
    scale = max(0, *scores) - min(0, *scores)
    assert widths == pytest.approx([100 * abs(score) / scale for score in scores], abs=0.5)

    # The button says that it writes
    button = page.get_by_test_id("interact").first
    expect(button).to_contain_text("learn")
    expect(page.get_by_test_id("writes")).to_be_visible()
    expect(page.get_by_test_id("writes")).to_contain_text("writes")
    assert button.get_attribute("aria-describedby") == "writes"

    # Figures are explained, for the keyboard too
    for figure, word in (("recall", "top 10"), ("mpr", "50")):
        page.get_by_test_id(f"help-{figure}").focus()
        page.keyboard.press("Enter")
        expect(page.locator(f"#help-{figure}")).to_be_visible()
        expect(page.locator(f"#help-{figure}")).to_contain_text(word)
        page.keyboard.press("Escape")
        expect(page.locator(f"#help-{figure}")).to_be_hidden()
    memory = page.get_by_test_id("tile-model")
    expect(memory).to_contain_text("process")
    expect(memory).to_contain_text(re.compile(r"[kM]?B · .*MB"))

    # λ is folded, below what people come for, and shown a side at a time
    fold = page.get_by_test_id("penalties-fold")
    assert fold.bounding_box()["y"] > page.get_by_test_id("try").bounding_box()["y"]  # type: ignore[index]
    expect(page.get_by_test_id("penalties-chart")).to_be_hidden()
    fold.locator("summary").click()
    expect(page.get_by_test_id("penalties-chart")).to_have_class(re.compile("drawn"))
    listed = page.get_by_test_id("penalties").locator("button")
    expect(listed.filter(has_text="genre")).to_have_count(1)
    expect(listed.filter(has_text="device")).to_have_count(0)
    page.get_by_test_id("penalties-sides").get_by_label("context fields").check(force=True)
    expect(listed.filter(has_text="device")).to_have_count(1)
    expect(listed.filter(has_text="genre")).to_have_count(0)


def test_on_a_phone_the_answer_comes_into_sight(shop: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport=PHONE)
    page.goto(shop)
    wait_for_events(page, 0)
    page.get_by_test_id("user").fill("somebody")
    page.get_by_test_id("recommend").click()
    expect(page.get_by_test_id("recommendation").first).to_be_in_viewport()
    expect(page.get_by_test_id("status")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("phase", ["recovering", "compiling"])
def test_the_first_minute_is_no_alarm(shop: str, chromium: Browser, phase: str) -> None:
    page, errors = chromium.new_page(), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    starting = {"status": "ok", "version": "0", "store": "works", "starting": {"phase": phase, "seconds": 23.0}}
    page.route("**/health", lambda route: route.fulfill(json=starting))
    page.goto(shop)
    expect(page.get_by_test_id("verdict")).to_have_attribute("data-state", "starting")
    expect(page.get_by_test_id("verdict-detail")).to_contain_text(re.compile("23 s so far.*about a minute"))
    expect(page.get_by_test_id("start-up")).to_be_visible()
    expect(page.get_by_test_id("banner")).to_be_hidden()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "starting")
    page.unroute("**/health")
    wait_for_events(page, 0)
    expect(page.get_by_test_id("start-up")).to_be_hidden()
    assert errors == []


def test_ctrl_c_stops_both_and_another_start_goes_on(tmp_path: Path, chromium: Browser) -> None:
    demo = Demo(tmp_path / "data", "--speed", "200")
    page, _ = opened(chromium, demo)
    wait_for_events(page, 200)
    page.close()
    assert demo.interrupt() == 0
    assert "stopping" in "".join(demo.said)
    again = Demo(tmp_path / "data", "--speed", "200")
    page, _ = opened(chromium, again)
    wait_for_events(page, 0)
    assert drawn(page) > 200
    samples = page.request.get(f"{again.address}live").json()["samples"]
    assert samples[0]["events"] < 200  # the curves begin where they began
    assert again.interrupt() == 0
    with closing(stores.inspected(f"sqlite:{tmp_path / 'data'}")) as store:
        lines = [json.loads(entry.body) for entry in store.read(0)]
    chosen = [line["event_id"] for line in lines if line["kind"] == "event"]
    assert chosen == [f"clicks-{n}" for n in range(1, len(chosen) + 1)]
    assert sum(line["kind"] == "item" for line in lines) == 5


def test_with_keys_the_page_asks_for_one(tmp_path: Path, chromium: Browser) -> None:
    keys = tmp_path / "keys.toml"
    Keys([Key("reader", ("read",), hashed("cs_reader"))]).write(keys)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    flags = ("--schema", tmp_path / "schema.toml", "--data", tmp_path / "data", "--keys", keys)
    with Served(*flags, folder=tmp_path) as server:
        server.logged("ready")
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.get_by_test_id("key-input").fill("cs_wrong")
        page.get_by_test_id("key-submit").click()
        expect(page.get_by_test_id("key-wrong")).to_be_visible()
        page.get_by_test_id("key-input").fill("cs_reader")
        page.get_by_test_id("key-submit").click()
        expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")
        expect(page.get_by_test_id("verdict")).to_have_attribute("data-state", "empty")


@pytest.mark.parametrize("scenario", ["clicks", "churn"])
def test_after_five_thousand_events_it_is_ahead_of_both_shadows(scenario: str) -> None:
    command = [sys.executable, "-m", "coldstream", "demo", "--headless", "--events", "5000", "--scenario", scenario]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    rows = {line[:20].strip(): [float(word) for word in line[20:].split()] for line in done.stdout.splitlines()[4:]}
    assert set(rows) == {"coldstream", "popularity", "recent popularity"}
    for shadow in ("popularity", "recent popularity"):
        assert rows["coldstream"][0] > rows[shadow][0]
        assert rows["coldstream"][1] < rows[shadow][1]
