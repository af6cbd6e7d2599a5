"""API keys: what is stored, who is found, and what the command does to the file."""

import argparse
import hmac
import logging
import os
import re
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coldstream import InvalidInput
from coldstream.cli import keys as command
from coldstream.service.http import keys as module
from coldstream.service.http.keys import SCOPES, Key, KeyFile, Keys, drawn, hashed

HASH = hashed("cs_shop")
ENTRY = f'[[key]]\nname = "shop"\nscopes = ["read"]\nhash = "{HASH}"\n'

needs_another_user = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "keys.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def run(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    command.add_to(parser.add_subparsers())
    args = parser.parse_args(["keys", *map(str, arguments)])
    return int(args.run(args))


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_key_is_long_random_and_known_as_ours() -> None:
    first, second = drawn(), drawn()
    assert first != second
    assert re.fullmatch(r"cs_[A-Za-z0-9_-]{43}", first)


def test_a_key_is_stored_as_its_sha_256() -> None:
    assert hashed("cs_shop") == "sha256:" + sha256(b"cs_shop").hexdigest()


def test_a_key_is_found_by_what_is_presented_and_by_nothing_else() -> None:
    presented = [drawn() for _ in range(3)]
    keys = Keys(Key(f"shop-{n}", ("read",), hashed(text)) for n, text in enumerate(presented))
    for n, text in enumerate(presented):
        found = keys.find(text)
        assert found is not None
        assert found.name == f"shop-{n}"
        for wrong in (text[:-1], text + " ", text.upper(), hashed(text), hashed(text).removeprefix("sha256:")):
            assert keys.find(wrong) is None
    assert Keys().find(presented[0]) is None


@given(st.text())
@example("\ud800")
def test_anything_may_be_presented(presented: str) -> None:
    assert Keys([Key("shop", ("read",), HASH)]).find(presented) is None


@pytest.mark.parametrize("position", [0, 1, 2])
def test_every_hash_is_compared_in_constant_time_wherever_the_key_is(monkeypatch: pytest.MonkeyPatch, position: int) -> None:
    texts = ["cs_a", "cs_b", "cs_c"]
    keys, compared = Keys(Key(text, ("read",), hashed(text)) for text in texts), []
    real = hmac.compare_digest

    def compare(a: str, b: str) -> bool:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    keys.find(texts[position])
    assert compared == [(hashed(text), hashed(texts[position])) for text in texts]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    keys = Keys([Key("shop", ("read", "write"), hashed("cs_a")), Key("ops.2-x_Y", ("admin",), hashed("cs_b"))])
    keys.write(tmp_path / "keys.toml")
    assert list(Keys.read(tmp_path / "keys.toml")) == list(keys)
    Keys().write(tmp_path / "none.toml")
    assert len(Keys.read(tmp_path / "none.toml")) == 0


def test_every_scope_stands_alone(tmp_path: Path) -> None:
    text = "".join(
        f'[[key]]\nname = "{scope}"\nscopes = ["{scope}", "{scope}"]\nhash = "{hashed(scope)}"\n' for scope in SCOPES
    )
    assert [key.scopes for key in Keys.read(written(tmp_path, text))] == [("read",), ("write",), ("admin",)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[key", r"cannot be read: .*; `coldstream keys add` makes one"),
        ("[[keys]]\nname = 'shop'", r"unknown entry 'keys'; every key is a \[\[key\]\]"),
        ("key = 'cs_secret'", r"key must be a list of tables, \[\[key\]\], got a str$"),
        ("key = ['cs_secret']", r"entry 1: must have name, scopes and hash, and nothing else, got a str$"),
        ("[[key]]\nname = 'shop'", r"entry 1: must have name, scopes and hash, and nothing else, got name$"),
        (ENTRY + "note = 'x'", r"entry 1: must have .*, got name, scopes, hash, note$"),
        (ENTRY.replace('"shop"', '""'), r"entry 1: name must be 1 to 64 letters, .*, got ''"),
        (ENTRY.replace('"shop"', "3"), r"entry 1: name must be 1 to 64 letters, .*, got 3"),
        (ENTRY.replace('"shop"', '"' + 65 * "x" + '"'), r"entry 1: name must be 1 to 64 letters"),
        (ENTRY.replace('"shop"', '"a\\nb"'), r"entry 1: name must be 1 to 64 letters, .*, got 'a\\nb'"),
        (ENTRY.replace('"shop"', '"shop\\n"'), r"entry 1: name must be 1 to 64 letters"),
        (ENTRY.replace('["read"]', '["read", "root"]'), r"entry 1 \(shop\): scopes must be .*, got \['read', 'root'\]"),
        (
            ENTRY.replace('["read"]', "[]"),
            r"entry 1 \(shop\): scopes must be a list of some of read, write, admin, got \[\]",
        ),
        (ENTRY.replace('["read"]', '"read"'), r"entry 1 \(shop\): scopes must be a list of some of .*, got 'read'"),
        (ENTRY.replace('["read"]', "[[1]]"), r"entry 1 \(shop\): scopes must be a list of some of .*, got \[\[1\]\]"),
        (ENTRY.replace("sha256:", "md5:"), r"entry 1 \(shop\): hash must be sha256: and 64 .*, got a str$"),
        (ENTRY.replace(HASH, HASH[:-1]), r"entry 1 \(shop\): hash must be sha256: and 64"),
        (ENTRY.replace(HASH, HASH + "\\n"), r"entry 1 \(shop\): hash must be sha256: and 64"),
        (ENTRY.replace(HASH, HASH.upper()), r"entry 1 \(shop\): hash must be sha256: and 64"),
        (ENTRY.replace(HASH, "cs_secret"), r"entry 1 \(shop\): hash must be sha256: and 64"),
        (ENTRY + ENTRY.replace('["read"]', "3"), r"entry 2 \(shop\): scopes must be"),
        (ENTRY + ENTRY.replace(HASH, hashed("x")), r"key 'shop' is there twice; choose another name"),
        (ENTRY + ENTRY.replace("shop", "other"), r"key 'other' has the hash of another, .*; remove one of them"),
    ],
)
def test_a_malformed_file_is_refused_by_the_entry_and_shows_no_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        Keys.read(written(tmp_path, text))
    assert "cs_secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "keys.toml", tmp_path):
        with pytest.raises(InvalidInput, match=r"keys '.*' cannot be read: .*; `coldstream keys add` makes one"):
            Keys.read(path)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(InvalidInput, match=rf"can be written to by others \(mode 0{mode:o}\); run chmod go-w on it"):
        Keys.read(written(tmp_path, ENTRY, mode))


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o644])
def test_a_file_that_others_may_read_is_fine(tmp_path: Path, mode: int) -> None:
    assert [key.name for key in Keys.read(written(tmp_path, ENTRY, mode))] == ["shop"]


def test_add_prints_the_key_once_and_keeps_only_its_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys.toml"
    assert run("add", "shop", "--scopes", "write, read", "--keys", path) == 0
    printed, note = capsys.readouterr()
    presented = printed.removesuffix("\n")
    assert "not shown again" in note
    assert presented not in note
    assert Keys.read(path).find(presented) == Key("shop", ("read", "write"), hashed(presented))
    assert presented not in path.read_text()
    assert tomllib.loads(path.read_text()) == {
        "key": [{"name": "shop", "scopes": ["read", "write"], "hash": hashed(presented)}]
    }


def test_add_list_and_remove_leave_the_others_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys.toml"
    for name, scopes in (("shop", "read,write"), ("ops", "admin"), ("board", "read")):
        run("add", name, "--scopes", scopes, "--keys", path)
    shop, ops, board = capsys.readouterr().out.split()
    assert run("remove", "ops", "--keys", path) == 0
    assert "removed ops" in capsys.readouterr().err
    assert run("list", "--keys", path) == 0
    listed = capsys.readouterr().out
    assert listed == "shop\tread,write\nboard\tread\n"
    keys = Keys.read(path)
    assert [key and key.name for key in map(keys.find, (shop, ops, board))] == ["shop", None, "board"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "shop", "--scopes", "read"), r"key 'shop' is there twice; choose another name, or remove the other first"),
        (("add", "new", "--scopes", "read,root"), r"new key \(new\): scopes must be .*, got \['read', 'root'\]"),
        (("add", "new", "--scopes", ""), r"new key \(new\): scopes must be"),
        (("add", "n e w", "--scopes", "read"), r"new key: name must be 1 to 64 letters, .*, got 'n e w'"),
        (("remove", "ops"), r"key 'ops' is not there; there are shop"),
    ],
)
def test_what_is_refused_leaves_the_file_and_prints_no_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    path = written(tmp_path, ENTRY)
    with pytest.raises(InvalidInput, match=message):
        run(*arguments, "--keys", path)
    assert path.read_text() == ENTRY
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_that_could_not_be_kept_is_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, ENTRY)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InvalidInput, match=r"cannot be written: .*No space left on device; nothing was changed"):
        run("add", "new", "--scopes", "read", "--keys", path)
    assert path.read_text() == ENTRY
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_others_may_write_to_is_not_added_to(tmp_path: Path) -> None:
    path = written(tmp_path, ENTRY, 0o666)
    with pytest.raises(InvalidInput, match=r"can be written to by others"):
        run("add", "new", "--scopes", "read", "--keys", path)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_mode(tmp_path: Path, umask: int) -> None:
    new, old = tmp_path / "new.toml", written(tmp_path, ENTRY, 0o644)
    before = os.umask(umask)
    try:
        for path in (new, old):
            run("add", "ops", "--scopes", "admin", "--keys", path)
    finally:
        os.umask(before)
    assert (mode_of(new), mode_of(old)) == (0o600, 0o644)


@needs_another_user
def test_a_file_stays_whose_it_was(tmp_path: Path) -> None:
    path = written(tmp_path, ENTRY)
    os.chown(path, 1234, 2345)
    run("add", "ops", "--scopes", "admin", "--keys", path)
    assert (path.stat().st_uid, path.stat().st_gid, mode_of(path)) == (1234, 2345, 0o600)


def test_keys_that_are_added_at_once_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    program = "import sys; from coldstream.cli import main; sys.exit(main(sys.argv[1:]))"
    adding = [
        subprocess.Popen([sys.executable, "-c", program, "keys", "add", f"k{n}", "--scopes", "read", "--keys", str(path)])
        for n in range(6)
    ]
    assert [one.wait() for one in adding] == [0] * 6
    assert {key.name for key in Keys.read(path)} == {f"k{n}" for n in range(6)}


def test_a_key_that_is_removed_or_added_counts_from_the_next_request_on(tmp_path: Path) -> None:
    path, other = written(tmp_path, ENTRY), drawn()
    file = KeyFile(path)
    assert file.find("cs_shop") == Key("shop", ("read",), HASH)
    run("remove", "shop", "--keys", path)
    assert file.find("cs_shop") is None
    Keys.read(path).with_(Key("ops", ("admin",), hashed(other))).write(path)
    found = file.find(other)
    assert found is not None
    assert found.name == "ops"


@pytest.mark.parametrize("how", ["broken", "open to others", "gone"])
def test_a_file_that_cannot_be_read_leaves_the_keys_and_is_one_error(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, ENTRY)
    file = KeyFile(path)
    if how == "broken":
        path.write_text("[[key]\n")
    elif how == "gone":
        path.unlink()
    else:
        path.chmod(0o666)
    for _ in range(3):
        assert file.find("cs_shop") is not None
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert str(path) in vars(line)["detail"]
    Keys([Key("ops", ("admin",), hashed(drawn()))]).write(path)
    path.chmod(0o600)
    assert file.find("cs_shop") is None


def test_keys_are_reread_when_that_is_asked_for_although_the_file_looks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, ENTRY)
    monkeypatch.setattr(module, "_stamp", lambda _: None)
    file = KeyFile(path)
    path.write_text(ENTRY.replace("read", "admin"))
    for expected in ("read", "admin"):
        found = file.find("cs_shop")
        assert found is not None
        assert found.scopes == (expected,)
        file.reread()
