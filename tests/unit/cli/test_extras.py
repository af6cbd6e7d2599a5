"""What is installed is enough for what it was installed for."""

import subprocess
import sys
from pathlib import Path

import pytest

from coldstream.cli import COMMANDS

EVALUATION = ("jinja2", "matplotlib", "platformdirs", "pyarrow", "rich")
SERVICE = ("httptools", "httpx", "msgspec", "plotly", "prometheus_client", "psycopg", "starlette", "uvicorn", "uvloop")

BLOCKED = """
import sys
from pathlib import Path
sys.modules.update(dict.fromkeys({modules!r}))
from coldstream.cli import main
sys.exit(main({arguments!r}))
"""


def coldstream_without(modules: tuple[str, ...], *arguments: str) -> "subprocess.CompletedProcess[str]":
    script = BLOCKED.format(modules=modules, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)


def test_the_list_of_commands_and_the_version_need_no_extra() -> None:
    everything = (*EVALUATION, *SERVICE)
    shown = coldstream_without(everything, "--help")
    assert shown.returncode == 0, shown.stderr
    assert all(name in shown.stdout for name in COMMANDS)
    assert coldstream_without(everything, "--version").stdout.startswith("coldstream 0.")
    bare = coldstream_without(everything)
    assert bare.returncode == 2
    assert "usage: coldstream" in bare.stderr
    assert "pip install" not in bare.stderr


def test_commands_of_the_service_need_nothing_of_the_evaluation() -> None:
    for name in [name for name, command in COMMANDS.items() if command.extra == "service"]:
        shown = coldstream_without(EVALUATION, name, "--help")
        assert shown.returncode == 0, (name, shown.stderr)
        assert f"usage: coldstream {name}" in shown.stdout


def test_what_is_missing_is_named_with_the_extra_that_brings_it() -> None:
    done = coldstream_without(EVALUATION, "evaluate", "clicks")
    assert done.returncode == 2
    assert "is not installed; `coldstream evaluate` needs it: pip install 'coldstream[evaluation]'" in done.stderr
    done = coldstream_without(SERVICE, "serve")
    assert "`coldstream serve` needs it: pip install 'coldstream[service]'" in done.stderr
    done = coldstream_without(("httpx",), "import", "--events", "events.csv")
    assert "`coldstream import` needs it: pip install 'coldstream[client,evaluation]'" in done.stderr


def test_a_scenario_that_reads_a_data_set_says_which_extra_reads_it(tmp_path: object) -> None:
    done = coldstream_without(EVALUATION, "demo", "--scenario", "movielens", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "the scenario movielens needs it to read a data set: pip install 'coldstream[evaluation]'" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_list_and_has_help(name: str) -> None:
    done = coldstream_without((), name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: coldstream {name}" in done.stdout


def test_without_ray_it_is_said_what_brings_it(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("user,item\n" + "".join(f"u{n % 5},i{n % 7}\n" for n in range(40)))
    for asked in (
        ("evaluate", "--events", str(tmp_path / "events.csv"), "--engine", "ray"),
        ("serve", "--data", str(tmp_path / "data"), "--engine", "ray"),
    ):
        done = coldstream_without(("ray",), *asked)
        assert done.returncode == 2
        assert "ray is not installed; --engine ray needs it: pip install 'coldstream[ray]'" in done.stderr
