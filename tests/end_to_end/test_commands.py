"""The commands as a user runs them: real processes, real files."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from served import PATIENCE, wait_until

KEYS = [
    *("dataset", "method", "seed", "top", "window", "events_tested", "recall", "recall_window_mean", "recall_window_std"),
    *("mpr", "mrr", "ndcg", "coverage", "new_user_recall", "new_item_recall", "recommend_us", "update_us"),
]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "coldstream", *map(str, arguments)]


def coldstream(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Somebody's own stream: events, items and a schema."""
    devices = ["desk", "phone", "phone"]
    events = [f"{n % 11},{n * n % 17},{1_700_000_000 + 3600 * n},{devices[n % 3]},{n % 5 + 1}" for n in range(400)]
    (tmp_path / "events.csv").write_text("user,item,time,device,rating\n" + "\n".join(events) + "\n")
    items = [f"{n},{'a|b' if n % 2 else 'b'},{n * 1.5}" for n in range(17)]
    (tmp_path / "items.csv").write_text("item,genre,price\n" + "\n".join(items) + "\n")
    (tmp_path / "schema.toml").write_text(
        'exclude_seen = false\n[item]\nid = { kind = "id" }\ngenre = { kind = "set" }\n'
        'price = { kind = "number", scale = 10 }\n[user]\nid = { kind = "id" }\n[context]\ndevice = { kind = "category" }\n'
    )
    return tmp_path


def test_evaluate_on_ones_own_files_writes_what_was_asked_for(files: Path) -> None:
    out = {kind: files / f"out.{kind}" for kind in ("json", "html", "parquet")}
    stream = ("--events", files / "events.csv", "--items", files / "items.csv", "--schema", files / "schema.toml")
    done = coldstream(
        *("evaluate", *stream, "--methods", "coldstream:factors=4,popularity", "--seeds", 2, "--top", 3, "--window", 50),
        *("--json", out["json"], "--report", out["html"], "--ranks", out["parquet"]),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out["json"].read_text())
    assert [(row["method"], row["seed"]) for row in rows] == [
        *(("coldstream:factors=4", seed) for seed in (0, 1)),
        *(("popularity", seed) for seed in (0, 1)),
    ]
    assert list(rows[0])[: len(KEYS)] == KEYS
    assert rows[0]["dataset"] == "events"
    assert rows[0]["events_tested"] == 280
    assert rows[0]["top"] == 3
    assert rows[2] | {"seed": 1} == rows[3]  # popularity has no seed
    assert pq.read_metadata(out["parquet"]).num_rows == 4 * 280
    assert "McNemar" in out["html"].read_text()
    assert "McNemar p" in done.stdout
    assert "coldstream:factors=4 − popularity" in done.stdout


def test_a_schema_is_inferred_where_none_is_given(files: Path) -> None:
    done = coldstream(
        *("evaluate", "--events", files / "events.csv", "--items", files / "items.csv", "--list", "genre"),
        *("--at-least", "rating=3", "--methods", "coldstream", "--json", files / "out.json"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((files / "out.json").read_text())[0]["events_tested"] == 240 - int(0.2 * 240) - int(0.1 * 240)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("evaluate",), "either the name of a data set or --events"),
        (("evaluate", "ml-10b"), "data set must be one of ml-100k, .*, got 'ml-10b'"),
        (("evaluate", "clicks", "--methods", "pop"), "method must be one of .*, got 'pop'"),
        (("evaluate", "clicks", "--methods", ","), "--methods must name at least one method"),
        (("evaluate", "clicks", "--methods", "coldstream:factors=-3"), "factors must be from 0 to 10000, got -3"),
        (("evaluate", "clicks", "--json", "nowhere/out.json"), "there is no folder"),
        (("evaluate", "--events", "nowhere.csv"), r"nowhere\.csv"),
        (("tune", "--events", "events.txt"), r"events\.txt"),
        (("datasets", "path", "clicks"), "clicks has no folder"),
        (("evaluate", "clicks", "--items", "items.csv"), "--items is for your own files"),
    ],
)
def test_a_mistake_gets_one_line_and_no_traceback(arguments: tuple[str, ...], error: str) -> None:
    done = coldstream(*arguments)
    assert done.returncode == 2
    assert re.search(error, done.stderr)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_help_is_there_for_every_command() -> None:
    for arguments in ((), ("datasets",), ("evaluate",), ("paper",), ("tune",)):
        done = coldstream(*arguments, "--help")
        assert done.returncode == 0, done.stderr
        assert "usage: coldstream" in done.stdout


def test_a_schema_that_says_nothing_of_repeats_leaves_them_to_the_stream(files: Path) -> None:
    text = (files / "schema.toml").read_text()
    stream = ("evaluate", "--events", files / "events.csv", "--items", files / "items.csv", "--methods", "popularity")
    for stated, rule in (
        ("", "every item"),
        ("exclude_seen = false\n", "every item"),
        ("exclude_seen = true\n", "did not have"),
    ):
        (files / "schema.toml").write_text(stated + text.removeprefix("exclude_seen = false\n"))
        assert rule in coldstream(*stream, "--schema", files / "schema.toml").stdout.splitlines()[0]


def test_a_column_that_is_not_there_is_refused(files: Path) -> None:
    for role in ("user", "item", "time"):
        done = coldstream("evaluate", "--events", files / "events.csv", "--column", f"{role}=nowhere")
        assert done.returncode == 2
        assert "nowhere" in done.stderr


def test_choosing_looks_at_the_untested_part_only(files: Path) -> None:
    stream = ("--events", files / "events.csv", "--methods", "popularity")
    assert coldstream("evaluate", *stream, "--untested", "--json", files / "o.json").returncode == 0
    assert json.loads((files / "o.json").read_text())[0]["events_tested"] == 120 - 24 - 12


def test_files_are_written_though_nobody_reads_the_output(files: Path) -> None:
    arguments = command(
        "evaluate", "--events", files / "events.csv", "--methods", "popularity", "--json", files / "out.json"
    )
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.close()
    assert len(json.loads((files / "out.json").read_text())) == 1


def test_data_sets_are_listed_and_found(tmp_path: Path) -> None:
    (tmp_path / "ml-1m").mkdir()
    for name in ("ratings.dat", "users.dat", "movies.dat"):
        (tmp_path / "ml-1m" / name).write_text("")
    here = {"COLDSTREAM_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    listed = coldstream("datasets", "list", **here).stdout
    assert re.search(rf"ml-1m .*{tmp_path}/ml-1m", listed)
    assert re.search(r"ml-100k .*not here", listed)
    assert coldstream("datasets", "path", "ml-1m", **here).stdout.strip() == str(tmp_path / "ml-1m")
    missing = coldstream("datasets", "path", "ml-100k", **here)
    assert missing.returncode == 2
    assert "u.data" in missing.stderr
    assert str(tmp_path / "cache" / "coldstream" / "ml-100k") in missing.stderr
    assert "nothing to fetch" in coldstream("datasets", "fetch", "clicks", **here).stdout


def test_tune_prints_a_configuration_that_evaluate_takes(files: Path) -> None:
    stream = ("--events", files / "events.csv", "--ignore", "rating")
    tuned = coldstream("tune", *stream, "--tries", 3, "--out", files / "tuned.toml")
    assert tuned.returncode == 0, tuned.stderr
    settings = tomllib.loads(tuned.stdout)
    assert settings == tomllib.loads((files / "tuned.toml").read_text())
    assert settings["loss"] == "softmax"
    assert tuned.stderr.count("the default") == 2  # tried, and once more among the best
    done = coldstream("evaluate", *stream, "--methods", f"coldstream:settings={files / 'tuned.toml'}")
    assert done.returncode == 0, done.stderr


def test_paper_writes_its_table_its_figures_and_its_ranks(tmp_path: Path) -> None:
    done = coldstream("paper", "--only", "clicks", "--trials", 1, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert re.search(r"ifm +0\.316 ± 0\.208 +0\.\d+ ± 0\.\d+ +34\.26 ± 1\.43 +\d+\.\d+ ± \d+\.\d+ +[\d,]+\.\d", done.stdout)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("ranks.parquet", "recall-clicks.svg", "report.html", "results.json"),
    ]
    assert len(json.loads((tmp_path / "out" / "results.json").read_text())) == 20
    assert "Beside the published figures" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(("jobs", "stop"), [(1, signal.SIGINT), (2, signal.SIGINT), (2, signal.SIGKILL)])
def test_an_interrupted_command_leaves_nothing_behind(tmp_path: Path, jobs: int, stop: signal.Signals) -> None:
    rows = "".join(f"u{n % 97},i{n * n % 301},{n}\n" for n in range(200_000))
    (tmp_path / "events.csv").write_text("user,item,time\n" + rows)
    out = tmp_path / "out"
    out.mkdir()
    (out / "result.json").write_text("old")
    stream, files = ("--events", tmp_path / "events.csv"), ("--json", out / "result.json", "--report", out / "report.html")
    process = subprocess.Popen(
        command("evaluate", *stream, *files, "--methods", "ease,item-knn,markov", "--jobs", jobs),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: process.poll() is not None or processor_seconds(process.pid) > 5)  # it is in the middle of it
    assert process.poll() is None, process.communicate()
    if stop == signal.SIGINT:  # what Ctrl-C sends, to all of them
        os.killpg(process.pid, stop)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert "interrupted" in stderr
        assert "Traceback" not in stderr
    else:
        process.kill()
        process.communicate(timeout=PATIENCE)
    assert [path.name for path in out.iterdir()] == ["result.json"]
    assert (out / "result.json").read_text() == "old"
    wait_until(lambda: is_gone(process.pid))  # helpers of Python's own take a moment to notice


def processor_seconds(group: int) -> float:
    """The time that all processes of a group have had of the processor: unlike a clock's, it is theirs alone."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(") ")[2].split()
            ticks += (int(fields[11]) + int(fields[12])) * (int(fields[2]) == group)
    return ticks / os.sysconf("SC_CLK_TCK")


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
