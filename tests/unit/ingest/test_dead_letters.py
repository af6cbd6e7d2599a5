"""Messages that cannot be learned: they are kept in a private file, or they are not done."""

import asyncio
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from coldstream.cli import main
from coldstream.client import NewEvent
from coldstream.errors import InvalidInput
from coldstream.ingest import ingestion as module
from coldstream.ingest.ingestion import DeadLetters, DeadLettersUnavailable, Ingestion
from coldstream.ingest.source import Message
from coldstream.service.messages.core import Learned

LETTERS = [(Message("1", b"no json", None), "not an event"), (Message("2", "Zoë".encode(), None), "refused")]


class ServiceThatLearns:
    async def learn(self, events: Iterable[NewEvent], *, source: str | None = None) -> Learned:
        return Learned(len(list(events)), 0, 1)


class SourceOfNothing:
    name = "test"

    def __init__(self) -> None:
        self.finished = list[str]()

    async def open(self) -> None: ...

    async def fetch(self, most: int, seconds: float) -> list[Message]:
        return []

    async def done(self, messages: Sequence[Message]) -> None:
        self.finished += [message.id for message in messages]

    async def lag(self) -> int | None:
        return None

    async def close(self) -> None: ...


def bodies(path: Path) -> list[str]:
    return [json.loads(line)["body"] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_mode(tmp_path: Path, umask: int) -> None:
    new, old = tmp_path / "new.jsonl", tmp_path / "old.jsonl"
    old.touch()
    old.chmod(0o640)
    before = os.umask(umask)
    try:
        for path in (new, old):
            DeadLetters(path).check()
            DeadLetters(path).add(LETTERS)
            DeadLetters(path).add(LETTERS[:1])
    finally:
        os.umask(before)
    assert (new.stat().st_mode & 0o777, old.stat().st_mode & 0o777) == (0o600, 0o640)
    assert bodies(new) == bodies(old) == ["no json", "Zoë", "no json"]


def test_a_line_that_was_not_finished_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_text('{"id": "0", "rea')
    DeadLetters(path).add(LETTERS)
    assert [json.loads(line)["id"] for line in path.read_text(encoding="utf-8").splitlines()[1:]] == ["1", "2"]


def test_a_file_that_cannot_be_written_is_one_clear_error_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "dead.jsonl"):
        with pytest.raises(InvalidInput, match=r"; (give|make)"):
            DeadLetters(path).check()
        assert main(["ingest", "--from", "postgresql://127.0.0.1:9/shop", "--dead", str(path)]) == 2
        said = capsys.readouterr().err
        assert str(path) in said
        assert said.count("\n") == 1
        serve = ["serve", "--data", str(tmp_path / "data"), "--ingest", "postgresql://127.0.0.1:9/shop"]
        assert main([*serve, "--ingest-dead", str(path)]) == 2
        said = capsys.readouterr().err
        assert str(path) in said
        assert said.count("\n") == 1
    DeadLetters(tmp_path / "dead.jsonl").check()
    assert list(tmp_path.iterdir()) == []


def test_while_the_file_cannot_be_written_messages_are_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.001)
    folder, source = tmp_path / "disk", SourceOfNothing()
    letters = DeadLetters(folder / "dead.jsonl")
    with pytest.raises(DeadLettersUnavailable, match=r"cannot be written .*; make room"):
        letters.add(LETTERS)
    messages = [Message("good", b'{"user": "u", "item": "i"}', None), Message("bad", b"no json", None)]

    async def take(stop: asyncio.Event) -> Ingestion:
        ingestion = Ingestion(source, ServiceThatLearns(), letters)
        await ingestion.take(messages, stop)
        return ingestion

    async def stopped() -> Any:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, stop.set)
        return await asyncio.wait_for(take(stop), 60)

    assert asyncio.run(stopped()).counts.dead == 0
    assert source.finished == []

    async def mended() -> Any:
        asyncio.get_running_loop().call_later(0.05, folder.mkdir)
        return await asyncio.wait_for(take(asyncio.Event()), 60)

    assert asyncio.run(mended()).counts.dead == 1
    assert source.finished == ["good", "bad"]
    assert bodies(folder / "dead.jsonl") == ["no json"]
