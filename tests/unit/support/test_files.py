"""Files that are whole or not there."""

import os
from pathlib import Path

import pytest

from coldstream import InvalidInput
from coldstream.support.files import atomic, check_writable, private, write_text


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interrupted_write_leaves_what_was_there(tmp_path: Path, old: str | None, interruption: type) -> None:
    path = tmp_path / "figures.json"
    if old is not None:
        path.write_text(old)

    def write() -> None:
        with atomic(path) as temporary:
            temporary.write_text("half of the n")
            raise interruption

    with pytest.raises(interruption):
        write()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == ({} if old is None else {"figures.json": old})


def test_a_finished_write_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    for text in ("first", "zweite Fassung: ±"):
        write_text(path, text)
        assert {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()} == {"figures.json": text}


def test_nothing_is_at_the_path_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    with atomic(path) as temporary:
        temporary.write_text("…", encoding="utf-8")
        assert temporary.parent == tmp_path
        assert not path.exists()
    assert path.exists()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "report.html", tmp_path / "latest.html"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_is_no_file_is_refused_and_stays(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is not a file"):
        write_text(tmp_path, "text")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidInput, match=r"is not a file"):
        write_text(pipe, "text")
    assert pipe.is_fifo()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"there is no folder .*nowhere'; make it first"):
        write_text(tmp_path / "nowhere" / "figures.json", "text")


def test_a_path_can_be_checked_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInput, match=r"is not a file"):
        check_writable(tmp_path)
    with pytest.raises(InvalidInput, match=r"there is no folder"):
        check_writable(tmp_path / "nowhere" / "report.html")
    monkeypatch.setattr(os, "access", lambda folder, mode: folder != tmp_path.resolve())  # root may write anywhere
    with pytest.raises(InvalidInput, match=r"cannot be written to; choose another"):
        check_writable(tmp_path / "report.html")


@pytest.mark.parametrize("old", [None, 0o644, 0o600])
def test_a_private_file_is_its_owners_alone_also_while_it_is_written(tmp_path: Path, old: int | None) -> None:
    path = tmp_path / "backup"
    if old is not None:
        path.touch(old)
    before = os.umask(0)
    try:
        with private(path) as temporary:
            temporary.with_name(f".backup.{os.getpid()}.writing").write_text("persons' data")
            assert temporary.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert path.read_text() == "persons' data"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_another_left_half_written_does_not_open_a_private_file(tmp_path: Path) -> None:
    left = tmp_path / f".backup.{os.getpid()}.writing"
    left.write_text("half of an older one")
    left.chmod(0o666)
    with private(tmp_path / "backup") as temporary:
        assert temporary.read_text() == ""
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
