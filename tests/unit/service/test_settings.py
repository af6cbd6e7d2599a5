"""Settings: one table, four sources, one kind of error."""

import argparse
import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import InvalidInput
from coldstream.config import preset
from coldstream.service import settings as module
from coldstream.service.settings import PREFIX, Settings, add_flags, check_exposure, settled, table

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "settings.md"
NAMES = [field.name for field in fields(Settings)]


def from_flags(*flags: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return module.given(parser.parse_args(flags))


def from_file(folder: Path, text: str) -> Path:
    file = folder / "serve.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_nothing_but_a_folder_is_needed() -> None:
    assert settled(None, {}, {"data": "here"}) == Settings(data=Path("here"))


def test_a_folder_or_a_store_is_needed() -> None:
    with pytest.raises(InvalidInput, match=r"data is missing, and so is store; give .* --data DIR, .* --store URL"):
        settled(None, {}, {})
    assert settled(None, {}, {"store": "postgresql://db/shop"}).data is None
    with pytest.raises(InvalidInput, match=r"data is 'here', and store is given too; give one"):
        settled(None, {}, {"store": "postgresql://db/shop", "data": "here"})


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(tmp_path: Path) -> None:
    file = from_file(tmp_path, 'data = "here"\nport = 1\nseed = 1\nevaluate_top = 1\n')
    environ = {PREFIX + "PORT": "2", PREFIX + "SEED": "2"}
    found = settled(file, environ, from_flags("--port", "3"))
    assert (found.port, found.seed, found.evaluate_top, found.evaluate_window) == (3, 2, 1, 3000)


def test_a_false_or_a_zero_is_given_too(tmp_path: Path) -> None:
    file = from_file(tmp_path, 'data = "here"\naccess_log = true\nport = 80\n')
    assert settled(file, {}, {}).access_log
    found = settled(file, {PREFIX + "PORT": "0"}, from_flags("--no-access-log"))
    assert (found.access_log, found.port) == (False, 0)


EXAMPLES: dict[str, tuple[Any, str]] = {
    "schema": (Path("schema.toml"), "schema.toml"),
    "data": (Path("data"), "data"),
    "store": ("postgresql://db/shop", "postgresql://db/shop"),
    "host": ("::1", "::1"),
    "port": (0, "0"),
    "preset": ("paper", "paper"),
    "seed": (2**63 - 1, "9223372036854775807"),
    "memory": ("2 GiB", "2 GiB"),
    "users": (10**6, "1_000_000"),
    "items": (10**5, "100_000"),
    "expire_users": ("365d", "365d"),
    "seen": (500, "500"),
    "undeclared": (0, "0"),
    "undeclared_values": (1, "1"),
    "admissions": (100, "100"),
    "engine": ("ray", "ray"),
    "learners": (4, "4"),
    "address": ("10.0.0.1:6379", "10.0.0.1:6379"),
    "merge_events": (1000, "1_000"),
    "merge_seconds": (0.5, "0.5"),
    "ingest": ("nats://127.0.0.1:4222/SHOP", "nats://127.0.0.1:4222/SHOP"),
    "ingest_batch": (1000, "1000"),
    "ingest_dead": (Path("dead.jsonl"), "dead.jsonl"),
    "keys": (Path("keys.toml"), "keys.toml"),
    "snapshot_events": (0, "0"),
    "snapshot_minutes": (0.5, "0.5"),
    "retain": ("90d", "90d"),
    "disk": ("20 GiB", "20 GiB"),
    "shown_retain": ("12h", "12h"),
    "shown_disk": ("50 MB", "50 MB"),
    "shown_share": (0.1, "0.1"),
    "erase_minutes": (0.5, "0.5"),
    "body_bytes": (1024, "1024"),
    "bodies_bytes": (2**20, "1_048_576"),
    "body_seconds": (0.5, "0.5"),
    "header_bytes": (1024, "1024"),
    "header_seconds": (1.0, "1"),
    "idle_seconds": (3600.0, "3600"),
    "connections": (100, "100"),
    "proxies": ("10.0.0.7,192.168.0.0/24", "10.0.0.7,192.168.0.0/24"),
    "pending_events": (10**7, "10_000_000"),
    "requests_per_second": (20.0, "20"),
    "evaluate_top": (1, "1"),
    "evaluate_window": (1, "1"),
    "evaluate_share": (1.0, "1"),
    "log_level": ("debug", "debug"),
    "access_log": (True, "true"),
    "announce": ("10.0.0.5:8000", "10.0.0.5:8000"),
    "failover_seconds": (1.5, "1.5"),
    "forward_seconds": (5.0, "5"),
    "after_seconds": (0.5, "0.5"),
    "drain_seconds": (3.0, "3"),
    "shutdown_seconds": (0.0, "0"),
}


def test_every_setting_has_an_example() -> None:
    assert sorted([*EXAMPLES, "hyperparameters"]) == sorted(NAMES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_source_reads_every_setting(tmp_path: Path, name: str) -> None:
    value, text = EXAMPLES[name]
    quoted = f'"{text}"' if isinstance(value, str | Path) else text
    flag = "--" + name.replace("_", "-")
    base = {} if name in ("data", "store") else {"store": "sqlite"}
    file = from_file(tmp_path, "".join(f'{own} = "sqlite"\n' for own in base) + f"{name} = {quoted}\n")
    for found in (
        settled(file, {}, {}),
        settled(None, {PREFIX + name.upper(): text}, base),
        settled(None, {}, base | from_flags(*([flag] if value is True else [flag, text]))),
    ):
        assert getattr(found, name) == value
        assert type(getattr(found, name)) is type(value)
        assert {other for other in NAMES if getattr(found, other) != getattr(Settings(), other)} <= {name, "store"}


def test_hyperparameters_come_from_every_source_and_each_by_itself(tmp_path: Path) -> None:
    file = from_file(tmp_path, 'data = "here"\n[hyperparameters]\nfactors = 1\nnegatives = 1\nhistory = 1\n')
    environ = {PREFIX + "HYPERPARAMETERS": "factors=2, negatives = 2,trends=[100, 500],loss=bpr"}
    found = settled(file, environ, from_flags("--set", "factors=3", "--set", "rank=closest-to-1"))
    assert found.hyperparameters == {
        "factors": 3,
        "negatives": 2,
        "history": 1,
        "trends": [100, 500],
        "loss": "bpr",
        "rank": "closest-to-1",
    }
    assert preset("default", **found.hyperparameters).trends == (100, 500)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("factors", r"hyperparameters \(--set\) must be name=value, got 'factors'"),
        ("factors=", r"hyperparameters \(--set\) must be name=value, got 'factors='"),
        ("=3", r"hyperparameters \(--set\) must be name=value, got '=3'"),
        ("factors=many", r"hyperparameters \(--set\): factors must be a whole number, got 'many'"),
        ("negatives=0", r"hyperparameters \(--set\): negatives must be 1 or more, because loss 'softmax' contrasts, got 0"),
        ("speed=3", r"hyperparameters \(--set\): no hyperparameter 'speed', got 3; known are factors, "),
        ("name=3", r"hyperparameters \(--set\): no hyperparameter 'name', got 3; known are factors, "),
        ("self=3", r"hyperparameters \(--set\): no hyperparameter 'self', got 3; known are factors, "),
    ],
)
def test_wrong_hyperparameters_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        settled(None, {}, from_flags("--data", "here", "--set", text))


def test_hyperparameters_are_judged_with_their_preset() -> None:
    found = settled(None, {}, from_flags("--data", "here", "--preset", "paper", "--set", "negatives=0"))
    assert found.hyperparameters == {"negatives": 0}
    with pytest.raises(InvalidInput, match=r"hyperparameters: negatives must be 1 or more"):
        Settings(hyperparameters={"negatives": 0})


def test_what_a_log_was_begun_with_is_left_to_it_unless_somebody_says_otherwise() -> None:
    found = settled(None, {}, {"data": "here"})
    assert (found.schema, found.preset, found.seed, found.hyperparameters) == (None, None, None, {})


def test_all_who_changed_hyperparameters_are_named(tmp_path: Path) -> None:
    file = from_file(tmp_path, 'data = "here"\n[hyperparameters]\nloss = "bpr"\n')
    with pytest.raises(InvalidInput, match=rf"hyperparameters \(in {re.escape(str(file))}, --set\): negatives must be"):
        settled(file, {}, from_flags("--set", "negatives=0"))


WRONG = [
    ("port", "70000", "a whole number from 0 to 65535, got 70000"),
    ("port", "-1", "a whole number from 0 to 65535, got -1"),
    ("port", "80.5", "a whole number from 0 to 65535, got 80.5"),
    ("port", "true", "a whole number from 0 to 65535, got True"),
    ("port", "'http'", "a whole number from 0 to 65535, got 'http'"),
    ("port", "9" * 400, "a whole number from 0 to 65535, got 999"),
    ("evaluate_share", "nan", "a number from 0 to 1, got nan"),
    ("evaluate_share", "1.01", "a number from 0 to 1, got 1.01"),
    ("snapshot_minutes", "inf", "a number from 0 to 525600, got inf"),
    ("snapshot_minutes", "false", "a number from 0 to 525600, got False"),
    ("snapshot_minutes", "9" * 400, "a number from 0 to 525600, got 999"),
    ("access_log", "1", "true or false, got 1"),
    ("access_log", "'yes'", "true or false, got 'yes'"),
    ("evaluate_top", "10001", "a whole number from 1 to 10000, got 10001"),
    ("connections", "0", "a whole number from 1 to 1000000, got 0"),
    ("pending_events", "999", "a whole number from 1000 to 10000000, got 999"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG)
def test_what_a_setting_must_be_is_said_with_its_value_and_its_source(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    file = from_file(tmp_path, f'data = "here"\n{name} = {text}\n')
    variable, flag = PREFIX + name.upper(), "--" + name.replace("_", "-")
    for source, sources in (
        (f"in {file}", (file, {}, {})),
        (variable, (None, {variable: text}, {"data": "here"})),
        (flag, (None, {}, {"data": "here", name: text})),
    ):
        with pytest.raises(InvalidInput, match=re.escape(f"{name} ({source}) must be {message}")):
            settled(*sources)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data = ''", "must be a path, got ''"),
        ("data = 3", "must be a path, got 3"),
        ("store = ''", "must be a text, got ''"),
        ("host = 127", "must be a text, got 127"),
        ("log_level = 'loud'", "must be one of debug, info, warning, error, got 'loud'"),
        ("preset = 'best'", "must be one of default, paper, predictor, got 'best'"),
        ("hyperparameters = 3", "must be a table of hyperparameters, got 3"),
    ],
)
def test_texts_and_tables_are_checked(tmp_path: Path, text: str, message: str) -> None:
    file = from_file(tmp_path, text)
    with pytest.raises(InvalidInput, match=re.escape(f"{text.split()[0]} (in {file}) {message}")):
        settled(file, {}, {})


def test_a_wrong_value_is_refused_even_if_a_later_source_would_win() -> None:
    with pytest.raises(InvalidInput, match=r"port \(COLDSTREAM_SERVE_PORT\) must be"):
        settled(None, {PREFIX + "PORT": "http"}, from_flags("--data", "here", "--port", "80"))


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    file = from_file(tmp_path, "prot = 80\n")
    with pytest.raises(
        InvalidInput, match=rf"'prot' in {re.escape(str(file))}: no such setting, got 80; known are schema, "
    ):
        settled(file, {}, {})
    with pytest.raises(InvalidInput, match=r"COLDSTREAM_SERVE_PROT: no such setting, got '80'; known are schema, "):
        settled(None, {PREFIX + "PROT": "80"}, {})
    with pytest.raises(InvalidInput, match=r"--prot: no such setting, got 80; known are schema, "):
        settled(None, {}, {"prot": 80})


def test_a_hyperparameter_is_sent_to_its_place(tmp_path: Path) -> None:
    file = from_file(tmp_path, "factors = 8\n")
    message = rf"'factors' in {re.escape(str(file))}: is a hyperparameter and no setting, got 8; write it below \[hyperp"
    with pytest.raises(InvalidInput, match=message):
        settled(file, {}, {})


def test_variables_of_others_and_empty_ones_are_left_alone() -> None:
    environ = {
        "COLDSTREAM_DATA": "/data/sets",
        "COLDSTREAM_PORT": "tcp://10.0.0.1:80",
        "PORT": "80",
        PREFIX + "PORT": "",
        PREFIX + "HYPERPARAMETERS": "",
    }
    assert settled(None, environ, {"data": "here"}) == Settings(data=Path("here"))


@pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe", b"port = " + b"9" * 5000, None])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "serve.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"settings '.*serve.toml' cannot be read: .*; give the path of a TOML file"):
        settled(file, {}, {})


def test_settings_are_checked_when_built_and_frozen_afterwards() -> None:
    with pytest.raises(InvalidInput, match=r"^evaluate_top must be a whole number from 1 to 10000, got 0$"):
        Settings(evaluate_top=0)
    with pytest.raises(FrozenInstanceError):
        Settings().port = 3  # type: ignore[misc]


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Settings(store="postgresql://shop:secret@db/shop", ingest="nats://shop:secret@broker/SHOP"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "127.255.255.255", "::1", "localhost"])
def test_loopback_needs_no_keys(host: str) -> None:
    check_exposure(Settings(host=host))


@pytest.mark.parametrize(
    "host",
    [
        *("0.0.0.0", "::", "", "10.0.0.1", "128.0.0.1", "126.255.255.255", "::2", "::ffff:127.0.0.1", "::1%eth0"),
        *("localhost.example.org", "LOCALHOST", "localhost ", " 127.0.0.1", "127.1", "0x7f000001", "127.0.0.1.example.org"),
    ],
)
def test_any_other_address_needs_keys(host: str) -> None:
    with pytest.raises(InvalidInput, match=r"host .* is not loopback, .* give --keys FILE .* or listen on 127.0.0.1"):
        check_exposure(Settings(host=host))
    check_exposure(Settings(host=host, keys=Path("keys.toml")))


@given(st.ip_addresses())
def test_only_two_ranges_of_addresses_are_loopback(address: Any) -> None:
    try:
        check_exposure(Settings(host=str(address)))
    except InvalidInput:
        exposed = True
    else:
        exposed = False
    assert exposed == (not str(address).startswith("127.") and str(address) != "::1")


def test_help_names_every_flag_and_its_default() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    text = " ".join(parser.format_help().split())
    for name in set(NAMES) - {"hyperparameters"}:
        assert f" --{name.replace('_', '-')}" in text
    for words in (
        *("--config FILE.toml", "--set NAME=VALUE", "--no-access-log", "0 takes any that is free (8000)"),
        "the least that is logged: debug, info, warning, error (info)",
    ):
        assert words in text
    assert "`" not in text
    assert "none" not in text.replace("for none by", "")


def test_the_guide_holds_the_table_and_nothing_like_it() -> None:
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("|")] == table().splitlines()


def test_the_table_says_all_about_a_setting() -> None:
    rows = table().splitlines()
    assert len(rows) == 2 + len(NAMES)
    assert "| `shutdown_seconds` | 30 | a number from 0 to 3600 | how long a stop waits" in table()
    assert "| `access_log` | false | true or false | whether every request is logged |" in rows
    assert "| `hyperparameters` | none | a table of hyperparameters | changes to the preset |" in rows
