"""What a service makes of its settings, and what it does beside its requests."""

import asyncio
import logging
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream import Recommender, Schema
from coldstream.bounds.bounds import Bounds
from coldstream.config import preset
from coldstream.errors import InvalidInput
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.team import Hiring
from coldstream.service import service as module
from coldstream.service.service import Behind, Service, requested_model, writer_limits
from coldstream.service.settings import Settings


def test_every_limit_of_the_writer_comes_from_its_setting() -> None:
    given: dict[str, Any] = {
        "pending_events": 1234,
        "evaluate_share": 0.5,
        "merge_events": 77,
        "merge_seconds": 3.5,
        "snapshot_events": 55,
        "snapshot_minutes": 2.0,
        "erase_minutes": 3.0,
        "retain": "2d",
        "disk": "3 GiB",
    }
    assert writer_limits(Settings(**given)) == WriterLimits(1234, 0.5, 77, 3.5, 55, 120.0, 180.0, 172_800.0, 3 * 2**30)
    assert len(given) == len(fields(WriterLimits))
    assert writer_limits(Settings()) == WriterLimits()


def test_a_model_is_requested_as_far_as_something_is_said(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text('[item]\nid = { kind = "id" }\n')
    assert requested_model(Settings()) == (None, None, None, {}, 1, Hiring())
    asked = requested_model(Settings(schema=tmp_path / "schema.toml", seed=7, learners=3, users=5, memory="1 GiB"))
    assert asked.schema == Schema.from_toml(tmp_path / "schema.toml")
    assert (asked.hyperparameters, asked.seed, asked.learners) == (None, 7, 3)
    assert asked.bounds == {"users": 5, "memory": "1 GiB"}
    assert set(asked.bounds) <= {bound.name for bound in fields(Bounds)}
    assert requested_model(Settings(preset="paper")).hyperparameters == preset("paper")
    own = {"factors": 3}
    assert requested_model(Settings(hyperparameters=own)).hyperparameters == preset("default", factors=3)
    assert requested_model(Settings(preset="paper", hyperparameters=own)).hyperparameters == preset("paper", factors=3)


class Known(SimpleNamespace):
    """A service that knows so much of a log, as one of several or alone."""

    def __init__(self, position: int, replica: object = None, reached: bool = True) -> None:
        self.asked = list[tuple[int, float]]()

        async def wait(asked: int, seconds: float) -> bool:
            self.asked.append((asked, seconds))
            return reached

        super().__init__(
            learner=SimpleNamespace(position=position),
            settings=SimpleNamespace(after_seconds=2.0),
            _replica=replica,
            _progress=SimpleNamespace(wait=wait),
        )

    def known_up_to(self, position: int | None) -> None:
        asyncio.run(Service.known_up_to(cast(Any, self), position))


def test_what_is_known_is_not_waited_for_and_what_comes_is() -> None:
    for replica in (None, object()):
        own = Known(7, replica)
        for position in (None, 0, 6, 7):
            own.known_up_to(position)
        assert own.asked == []
    with pytest.raises(InvalidInput, match="got 8; the log ends at line 7") as refused:
        Known(7).known_up_to(8)
    assert refused.value.field == "after"
    own = Known(7, object())
    own.known_up_to(8)
    assert own.asked == [(8, 2.0)]
    with pytest.raises(Behind, match=r"line 8 .* not learned here within 2 s, only what is before line 8; ask again"):
        Known(7, object(), reached=False).known_up_to(8)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({}, "127.0.0.1:8000"),
        ({"host": "0.0.0.0"}, "10.0.0.9:8000"),
        ({"host": ""}, "10.0.0.9:8000"),
        ({"host": "::"}, "10.0.0.9:8000"),
        ({"host": "::1"}, "[::1]:8000"),
        ({"host": "0.0.0.0", "announce": "shop:80"}, "shop:80"),
    ],
)
def test_where_others_reach_a_replica(given: dict[str, Any], address: str) -> None:
    own = SimpleNamespace(settings=Settings(**given), _port=8000)
    assert Service._address(cast(Any, own), cast(Any, SimpleNamespace(local_address=lambda: "10.0.0.9"))) == address


def test_changes_are_those_of_a_window_and_the_copy_before_is_told_once_more() -> None:
    async def look() -> None:
        recommender = Recommender(Schema(), factors=2)
        own = SimpleNamespace(_comparing=asyncio.Lock(), _changes=None)
        own.recommender = SimpleNamespace(events=0, inspection=recommender.inspection)
        own.learner = SimpleNamespace(evaluation=SimpleNamespace(window=10))
        service = cast(Any, own)
        first = await Service.changes(service)
        assert first is own._changes
        own.recommender.events = first.events + 10
        assert await Service.changes(service) is first
        assert own._changes is first
        own.recommender.events += 1
        assert await Service.changes(service) is first  # of the window that has passed
        assert own._changes is not first

    asyncio.run(look())


def test_a_sample_is_taken_every_second_whatever_becomes_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slept, taken = list[float](), list[int]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    def sample() -> None:
        taken.append(len(slept))
        if len(taken) == 2:
            raise ZeroDivisionError

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    service = SimpleNamespace(live_samples=SimpleNamespace(sample=sample))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Service._sample(cast(Any, service)))
    assert (slept, taken) == ([1, 1, 1], [0, 1, 2])
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_snapshots_are_made_beside_the_log_or_in_the_stores_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))

    def folder(**given: Any) -> Path:
        return Service._folder(cast(Any, SimpleNamespace(settings=Settings(**given))))

    assert folder(data=tmp_path / "here") == tmp_path / "here"
    one, other = folder(store="postgresql://db/a"), folder(store="postgresql://db/b")
    assert one.parent == other.parent == tmp_path
    assert one != other
    assert one == folder(store="postgresql://db/a"), "what was left there is found"
    assert one.stat().st_mode & 0o777 == 0o700
