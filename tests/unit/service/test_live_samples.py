"""Live samples: one a second, thinner the longer ago."""

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from api import Api

from coldstream.runtime.verification import verified
from coldstream.service import service as service_module
from coldstream.service.handlers import live_samples as module
from coldstream.service.service import StartUp
from coldstream.storage import stores
from conftest import bits


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("live"), evaluate_window=50).start()
    yield served
    served.stop()


def learn(api: Api, first: int, count: int) -> None:
    events = [{"user": f"u{n}", "item": f"i{n % 7}", "time": 1.7e9 + n} for n in range(first, first + count)]
    assert api.call("POST", "/events", events).status == 200


def take_sample(api: Api) -> None:
    async def sampled() -> None:
        api.service.live_samples.sample()

    api.run(sampled())


def test_samples_say_what_the_service_says(api: Api) -> None:
    learn(api, 0, 30)
    api.call("POST", "/recommend", {})
    take_sample(api)
    live = api.call("GET", "/live").json
    sample, evaluation = live["samples"][-1], api.call("GET", "/evaluation").json
    assert sample["events"] == evaluation["events"] == 30
    assert sample["methods"]["popularity"]["mpr"] == pytest.approx(evaluation["methods"]["popularity"]["mpr"], abs=1e-4)
    assert sample["p50_ms"] > 0
    assert sample["penalties"]["item.id"] > 0
    assert live["service"]["position"] == api.service.learner.position
    assert live["service"]["users"] == 30
    sequence = [one["seq"] for one in live["samples"]]
    assert sequence == sorted(set(sequence))
    assert api.call("GET", f"/live?since={sequence[-1]}").json["samples"] == []


def test_new_features_are_those_of_the_last_window(api: Api) -> None:
    learn(api, 0, 60)
    take_sample(api)
    before = api.call("GET", "/live").json["samples"][-1]["features"]
    learn(api, 60, 40)
    take_sample(api)
    sample = api.call("GET", "/live").json["samples"][-1]
    assert sample["new_features"] == sample["features"] - before > 0


def test_new_items_and_drift_are_marked(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_ARRIVALS", 0)
    learn(api, 0, 10)
    take_sample(api)
    take_sample(api)
    api.call("POST", "/items", [{"id": "new"}, {"id": "newer"}])
    api.service.learner.evaluation.alarms.append(9)
    take_sample(api)
    marks = api.call("GET", "/live").json["marks"]
    assert [(mark["kind"], mark["text"]) for mark in marks[-2:]] == [
        ("drift", "drift was noticed"),
        ("items", "2 new items"),
    ]


def test_old_samples_become_fewer(api: Api) -> None:
    for _ in range(module.MOST_SAMPLES + 200):
        take_sample(api)
    samples = api.service.live_samples.samples
    assert len(samples) <= module.MOST_SAMPLES
    assert len({sample.seq for sample in samples}) == len(samples)
    gaps = [later.seq - earlier.seq for earlier, later in pairwise(samples)]
    assert gaps[-1] == 1
    assert max(gaps[: len(gaps) // 3]) > 1


def restarted(api: Api, folder: Path, **settings: Any) -> Api:
    api.stop()
    return Api(folder, **{"evaluate_window": 50, **settings}).start()


def curves(api: Api) -> tuple[list[Any], list[Any]]:
    answer = api.call("GET", "/live").json
    return answer["samples"], answer["marks"]


def test_the_curves_survive_a_restart(tmp_path: Path) -> None:
    api = Api(tmp_path, evaluate_window=50).start()
    learn(api, 0, 30)
    take_sample(api)
    learn(api, 30, 30)
    take_sample(api)
    api.service.learner.evaluation.alarms.append(55)
    take_sample(api)
    before, marks = curves(api)
    api = restarted(api, tmp_path)
    take_sample(api)
    after, marks_after = curves(api)
    api.stop()
    assert [sample["events"] for sample in before][-2:] == [60, 60]
    assert after[: len(before)] == before
    assert marks_after[: len(marks)] == marks
    assert marks
    assert after[-1]["seq"] > before[-1]["seq"]
    assert after[len(before)]["events_per_second"] == 0


def test_what_is_learned_does_not_depend_on_the_curves(tmp_path: Path) -> None:
    states = []
    for samples in (0, 5):
        folder = tmp_path / str(samples)
        folder.mkdir()
        api = Api(folder).start()
        for n in range(samples):
            learn(api, n, 1)
            take_sample(api)
        learn(api, samples, 10 - samples)
        states.append(bits(api.service.recommender))
        api.stop()
        with closing(stores.inspected(f"sqlite:{folder / 'data'}")) as store:
            assert verified(store, False, lambda _: None).different == []
    assert states[0] == states[1]


def test_curves_of_another_recall_begin_anew(tmp_path: Path) -> None:
    api = Api(tmp_path, evaluate_window=50).start()
    learn(api, 0, 30)
    take_sample(api)
    count = len(curves(api)[0])
    api = restarted(api, tmp_path, evaluate_top=3)
    samples = curves(api)[0]
    api.stop()
    assert count > 1
    assert len(samples) <= 1


@pytest.mark.parametrize("text", ["", "{", '{"top": 10}', "null"])
def test_curves_that_cannot_be_read_are_left_behind(api: Api, text: str) -> None:
    take_sample(api)
    before = list(api.service.live_samples.samples)
    api.service.live_samples.restore(text)
    assert api.service.live_samples.samples == before


def test_what_snapshots_carry_is_bounded(api: Api) -> None:
    api.call("POST", "/events", [{"user": "u", "item": "i", "context": {f"field {n}": "x"}} for n in range(200)])
    for _ in range(module.MOST_SAMPLES + 10):
        take_sample(api)
    assert len(api.service.live_samples.samples[-1].penalties) == module.MOST_PENALTIES
    assert len(api.service.live_samples.encoded()) < 3_000_000


def test_while_it_starts_health_says_how_far_it_is(tmp_path: Path) -> None:
    api = Api(tmp_path)
    assert api.call("GET", "/health").json["starting"] is None
    api.service.start_up = StartUp()
    assert api.call("GET", "/health").json["starting"]["phase"] == "recovering"
    api.service.start_up.phase = "compiling"
    told = api.call("GET", "/health").json["starting"]
    assert told["phase"] == "compiling"
    assert told["seconds"] >= 0
    api.start()
    assert api.call("GET", "/health").json["starting"] is None
    api.stop()


def test_a_start_goes_through_its_phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api, seen = Api(tmp_path), []

    def look(*_: object) -> None:
        seen.append(api.call("GET", "/health").json["starting"]["phase"])

    found = service_module.recovered
    monkeypatch.setattr(service_module, "recovered", lambda *given: (look(), found(*given))[1])
    monkeypatch.setattr(service_module, "warm_up", look)
    api.start()
    api.stop()
    assert seen == ["recovering", "compiling"]


def test_the_page_can_tell_the_model_from_the_process(api: Api) -> None:
    learn(api, 0, 5)
    service = api.call("GET", "/live").json["service"]
    assert service["process_bytes"] > 50_000_000
    assert service["parameters_bytes"] < 100_000


def test_the_page_and_its_files_are_there_and_nothing_else(api: Api) -> None:
    page = api.call("GET", "/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert b"http://" not in page.body.replace(b"http://www.w3.org", b"")
    for name in ("main.js", "page.css", "plotly.min.js"):
        assert api.call("GET", f"/assets/{name}").status == 200
    for name in ("index.htm", "..%2fservice.py", ".", "service.py"):
        assert api.call("GET", f"/assets/{name}").status == 404


def test_searching(api: Api) -> None:
    api.call("POST", "/items", [{"id": "x1", "attributes": {"genre": ["Jazz"]}}, {"id": "x2"}, {"id": "jazzy"}])
    api.call("POST", "/users", [{"id": "ann"}, {"id": "joann"}, {"id": "an"}])
    api.call("POST", "/events", {"user": "ann", "item": "x2"})
    assert [item["id"] for item in api.call("GET", "/items?search=jazz").json["items"]] == ["x1", "jazzy"]
    assert api.call("GET", "/items?search=x2").json["items"][0]["chosen"] == 1
    assert api.call("GET", "/items?limit=1&after=1").json["items"][0]["id"] == "x2"
    assert api.call("GET", "/users?search=an").json == {
        "users": ["an", "ann", "joann"],
        "total": 3,
        "next": None,
        "cursor": None,
    }
    assert api.call("GET", "/features?search=genre=jazz").json["features"] == ["item.genre=Jazz"]
    assert api.call("GET", "/schema").json["item"]["genre"]["values"] == ["Jazz"]
    assert api.call("GET", "/features/nearest?feature=item.genre%3DJazz&n=2").json["feature"] == "item.genre=Jazz"
    assert api.call("GET", "/features/nearest?feature=nope").status == 404
    assert api.call("GET", "/features/nearest").status == 422
    assert api.call("GET", "/items?limit=0").json["field"] == "$.limit"
    assert api.call("GET", "/items?nope=1").json["field"] == "$.nope"
    assert api.call("GET", "/items?search=%ff").status == 400
    api.call("GET", "/features/changed")
    api.call("POST", "/events", {"user": "ann", "item": "x1"})
    moved = api.call("GET", "/features/changed?n=50").json
    assert moved["since_events"] == 1
    assert "user.id=ann" in [one["feature"] for one in moved["changed"]]
