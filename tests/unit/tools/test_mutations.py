"""The program that makes mutants: what it changes, what it leaves alone, and that it stays within its limits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "mutants"))

from calls import callers  # noqa: E402
from equivalent import equivalents, outdated  # noqa: E402
from imports import dependents  # noqa: E402
from mutations import is_python, mutations_of  # noqa: E402
from rooms import TESTS, covering, sources  # noqa: E402
from trial import _take_along  # noqa: E402

SOURCE = '''"""A file with 2 < 3 in its docstring."""

import math

LIMIT = 3


@kernel
def summed(x: "float | int", y=0):
    for n in range(LIMIT):
        prefetch(x, n + 1)
        x += y * 2
    return x


@kernel
def _ask_for_rows(x):
    for n in range(2):
        if n > 1:
            prefetch(x, n)


class Kept:
    """What is kept."""

    def put(self, item, é=1):
        if item in self.items and not self.full:
            raise ValueError(f"{item + 1} is there")
        self.items[item] = (é + é) < max(
            2.0, item
        )
        log.warning("put %s", item + 1)
        self.settle()
'''
FOUND = [
    ("LIMIT = 3", "LIMIT = 4", True),
    ("LIMIT = 3", "LIMIT = 2", True),
    ('def summed(x: "float | int", y=0):', 'def summed(x: "float | int", y=1):', True),
    ("x += y * 2", "pass", True),
    ("x += y * 2", "x -= y * 2", True),
    ("x += y * 2", "x += y + 2", True),
    ("x += y * 2", "x += y * 3", True),
    ("x += y * 2", "x += y * 1", True),
    ("def put(self, item, é=1):", "def put(self, item, é=2):", False),
    ("def put(self, item, é=1):", "def put(self, item, é=0):", False),
    ("if item in self.items and not self.full:", "if not (item in self.items and not self.full):", False),
    ("if item in self.items and not self.full:", "if item not in self.items and not self.full:", False),
    ("if item in self.items and not self.full:", "if item in self.items or not self.full:", False),
    ("if item in self.items and not self.full:", "if item in self.items and self.full:", False),
    ('raise ValueError(f"{item + 1} is there")', "pass", False),
    ("self.items[item] = (é + é) < max( 2.0, item )", "pass", False),
    ("self.items[item] = (é + é) < max(", "self.items[item] = (é - é) < max(", False),
    ("self.items[item] = (é + é) < max(", "self.items[item] = (é + é) <= max(", False),
    ("self.items[item] = (é + é) < max(", "self.items[item] = (é + é) > max(", False),
    ("self.items[item] = (é + é) < max(", "self.items[item] = (é + é) < min(", False),
    ("2.0, item", "4.0, item", False),
    ("2.0, item", "1.0, item", False),
    ("self.settle()", "pass", False),
]


def test_every_change_and_nothing_else() -> None:
    """Docstrings, types, messages, logs and hints stay as they are; whatever changes, every line stays where it is."""
    found = mutations_of("file.py", SOURCE)
    assert sorted((*own.before_and_after(SOURCE), own.compiled) for own in found) == sorted(FOUND)
    for own in found:
        changed = own.applied(SOURCE)
        assert is_python(changed)
        assert changed != SOURCE
        assert changed.count("\n") == SOURCE.count("\n")
        assert SOURCE.split("\n")[own.line - 1] != changed.split("\n")[own.line - 1]
    assert len({own.name(SOURCE) for own in found}) == len(found)


def test_every_room_has_sources_and_tests() -> None:
    for room in TESTS:
        assert sources(ROOT, room), room
        found = covering(ROOT, room)
        assert len(found) == len(set(found)) > 5, room
        assert all((ROOT / path).exists() for path in found), room
        assert ("tests/unit/features/test_encoder.py" in found) == (room not in ("runtime", "storage", "service"))
    assert "src/coldstream/model/reference.py" not in sources(ROOT, "model")


def listed(*options: str) -> str:
    ran = subprocess.run(
        [sys.executable, "tools/mutants", "--list", *options], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_what_is_drawn_depends_on_the_seed_alone_and_goes_from_room_to_room() -> None:
    few, many, others = listed("--count", "8"), listed("--count", "16"), listed("--count", "16", "--seed", "2")
    assert many.startswith(few)
    assert many != others
    folders = [line.split()[1].split("/")[0].split(":")[0] for line in few.splitlines() if line[:4].strip().isdigit()]
    assert [folder for folder in folders if folder in TESTS] == [room for room in TESTS if room != "recommender"]
    assert len(folders) == 8


def test_equivalent_mutants_have_a_reason_and_those_of_code_that_is_gone_are_known() -> None:
    listed = equivalents()
    assert all(len(why) > 20 and was != is_ for (_, was, is_), why in listed.items())
    path = "src/coldstream/model/updates.py"
    here, gone = next(own for own in listed if own[0] == path), (path, "this was", "here once")
    assert outdated([here, gone, ("src/coldstream/gone.py", "a", "b")], ROOT) == [gone, ("src/coldstream/gone.py", "a", "b")]


TRIAL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import trial
from mutations import mutations_of
trial.CPU_SECONDS, trial.MEMORY, trial.NEAREST = 60, 4 * 2**30, 1
root, path = Path(sys.argv[2]), "src/coldstream/rule.py"
shop = trial.Workshop(root, root / "work")
for mutation in mutations_of(path, (root / path).read_text()):
    outcome = shop.trial(mutation, ["tests/test_rule.py", "tests/test_far.py"])
    print(mutation.old.strip(), "|", mutation.new, "|", outcome.verdict, "|", outcome.by)
"""


def test_a_trial_tells_who_noticed_and_ends_what_it_started(tmp_path: Path) -> None:
    """A test that starts a process in a session of its own, and fails on one mutant of two."""
    for folder in ("src/coldstream/support", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/coldstream/support/compiled.py").write_text("_SOURCES = _digest_of_sources()\n")
    (tmp_path / "src/coldstream/rule.py").write_text("def rule(n):\n    return n < 2\n")
    pids, loaded = tmp_path / "pids", tmp_path / "loaded"
    (tmp_path / "tests/test_far.py").write_text(f"open({str(loaded)!r}, 'a').write('x')\ndef test_far(): pass\n")
    (tmp_path / "tests/test_rule.py").write_text(
        f"""
import subprocess, sys
sys.path.insert(0, "src/coldstream")
from rule import rule
def test_rule():
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    open({str(pids)!r}, "a").write(str(left.pid) + " ")
    assert rule(1) and not rule(3)
"""
    )
    command = [sys.executable, "-c", TRIAL, str(ROOT / "tools" / "mutants"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    said = [line.split(" | ") for line in ran.stdout.splitlines()]
    verdicts = {(old, new): (verdict, by) for old, new, verdict, by in said}
    killed = ("killed", "FAILED tests/test_rule.py::test_rule")
    assert verdicts == {("<", "<="): ("survived", ""), ("<", ">"): killed, ("2", "3"): ("survived", ""), ("2", "1"): killed}
    started = pids.read_text().split()
    assert len(started) == 5  # four mutants, and once without one: the witness
    assert [pid for pid in started if (Path("/proc") / pid).exists()] == []
    assert loaded.read_text() == "xx", "the far ones are loaded where the nearest have noticed nothing"
    assert (tmp_path / "src/coldstream/rule.py").read_text() == "def rule(n):\n    return n < 2\n"


KILLED_FROM_OUTSIDE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import trial
from mutations import mutations_of
root, path = Path(sys.argv[2]), "src/coldstream/rule.py"
trial.Workshop(root, root / "work").trial(mutations_of(path, (root / path).read_text())[0], ["tests"])
"""


def test_tests_that_somebody_else_has_killed_are_no_verdict(tmp_path: Path) -> None:
    for folder in ("src/coldstream/support", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/coldstream/support/compiled.py").write_text("_SOURCES = _digest_of_sources()\n")
    (tmp_path / "src/coldstream/rule.py").write_text("LIMIT = 2\n")
    (tmp_path / "tests/test_rule.py").write_text("import os\ndef test_rule():\n    os.kill(os.getpid(), 9)\n")
    command = [sys.executable, "-c", KILLED_FROM_OUTSIDE, str(ROOT / "tools" / "mutants"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 1
    assert ran.stderr.startswith("the tests were killed from outside")
    assert (tmp_path / "work/tree/src/coldstream/rule.py").read_text() == "LIMIT = 2\n"


@pytest.mark.parametrize("room", ["kitchen", ""])
def test_a_room_that_is_not_there_is_named(room: str) -> None:
    ran = subprocess.run(
        [sys.executable, "tools/mutants", "--list", "--rooms", room], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 1
    assert f"no room {room!r}; there are model, catalogue" in ran.stderr


def test_a_mutant_meets_the_tests_that_call_its_function_the_quickest_first(tmp_path: Path) -> None:
    source = "LIMIT = 3\n\n@twice\ndef first():\n    return LIMIT\n\ndef second():\n    return [1 for _ in first()]\n"
    known = {
        "tests/slow.py": {"seconds": 9.0, "calls": ["src/a.py:3"]},
        "tests/quick.py": {"seconds": 1.0, "calls": ["src/a.py:3", "src/a.py:7"]},
        "tests/other.py": {"seconds": 0.1, "calls": ["src/b.py:3"]},
    }
    (calls := tmp_path / "calls.json").write_text(json.dumps(known))
    assert callers(calls, source, "src/a.py", 5) == ["tests/quick.py", "tests/slow.py"]
    assert callers(calls, source, "src/a.py", 8) == ["tests/quick.py"]
    assert callers(calls, source, "src/a.py", 1) == ["tests/quick.py", "tests/slow.py"]  # what any function may look at
    assert callers(tmp_path / "none.json", source, "src/a.py", 5) == []


def test_other_processes_are_tried_even_where_it_is_known_who_calls() -> None:
    tests = covering(
        ROOT, "storage", "src/coldstream/storage/backup_file.py", ["tests/quick.py", "tests/contracts/test_backup.py"]
    )
    assert tests[:3] == ["tests/contracts/test_backup.py", "tests/quick.py", "tests/end_to_end/test_backup_drill.py"]
    assert all(test.startswith("tests/end_to_end/") for test in tests[3:])
    assert tests[3:]


def test_machine_code_is_stale_of_all_that_import_what_is_mutated() -> None:
    stale = dependents(ROOT / "src", "coldstream/scoring/folding.py")
    assert {"coldstream/scoring/folding.py", "coldstream/scoring/scorer.py", "coldstream/recommender.py"} <= stale
    assert not {path for path in stale if path.startswith(("coldstream/model/", "coldstream/catalogue/"))}
    assert "coldstream/catalogue/contrast.py" in dependents(ROOT / "src", "coldstream/model/updates.py")


def test_code_of_what_is_not_mutated_is_taken_along_and_nothing_of_tests(tmp_path: Path) -> None:
    known = tmp_path / "machine-code"
    for source in ("model/a.py", "scoring/b.py"):
        (tmp_path / "tree/src/coldstream" / source).parent.mkdir(parents=True)
        (tmp_path / "tree/src/coldstream" / source).touch()
    for code in ("model_1/a.f-3.py311.nbi", "scoring_2/b.g-4.py311.nbi", "unit_3/test_c.h-5.py311.nbi"):
        (known / code).parent.mkdir(parents=True)
        (known / code).touch()
    _take_along(known, tmp_path / "passing", {"coldstream/scoring/b.py"})
    assert [path.name for path in (tmp_path / "passing").glob("*/*")] == ["a.f-3.py311.nbi"]


def test_a_mutant_that_nothing_can_import_is_killed(tmp_path: Path) -> None:
    for folder in ("src/coldstream/support", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/coldstream/support/compiled.py").write_text("_SOURCES = _digest_of_sources()\n")
    (tmp_path / "src/coldstream/rule.py").write_text("Either = int | str\n")
    (tmp_path / "tests/conftest.py").write_text("import sys\nsys.path.insert(0, 'src/coldstream')\nimport rule\n")
    for name in ("rule", "far"):
        (tmp_path / f"tests/test_{name}.py").write_text("def test(): pass\n")
    command = [sys.executable, "-c", TRIAL, str(ROOT / "tools" / "mutants"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (ran.stdout, ran.stderr) == ("| | & | killed | import\n", "")
