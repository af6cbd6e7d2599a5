"""What is shipped: the wheel's bytes depend on the sources alone, and what is deployed says what the guide says."""

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools" / "packages"))
import containerfile  # noqa: E402

DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = []
    for n in range(2):
        folder = tmp_path_factory.mktemp(f"wheel{n}")
        code = f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={"SOURCE_DATE_EPOCH": "1767225600", "PATH": ""}, check=True
        )
        made += folder.glob("*.whl")
    return made


def test_two_builds_are_the_same_bytes(wheels: list[Path]) -> None:
    one, other = (hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels)
    assert one == other


def test_the_wheel_has_the_package_and_nothing_else(wheels: list[Path]) -> None:
    names = zipfile.ZipFile(wheels[0]).namelist()
    assert "coldstream/py.typed" in names
    assert "coldstream/evaluation/templates/report.html" in names
    assert any(name.startswith("coldstream/service/dashboard/") for name in names)
    strange = [
        name
        for name in names
        if not name.startswith(("coldstream/", "coldstream-")) or name.endswith((".nbc", ".nbi", ".pyc"))
    ]
    assert strange == []


def test_every_extra_is_tried_and_explained() -> None:
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]) - {"dev"}
    program = (ROOT / "tools" / "packages" / "__main__.py").read_text()
    decisions = "".join(path.read_text() for path in (ROOT / "docs" / "decisions").glob("*.md"))
    for extra in declared:
        assert f'    "{extra}": ' in program, f"make dist does not try {extra}"
        assert f"`{extra}`" in decisions, f"no decision says why there is an extra {extra}"


def pins(lock: str) -> dict[str, set[str]]:
    """Name and versions of all packages of a lock file, each with a hash."""
    text = (ROOT / lock).read_text()
    found: dict[str, set[str]] = {}
    for name, version, rest in re.findall(r"^([a-z0-9-]+)==([^\s;]+)(.*(?:\n .*)+)", text, re.MULTILINE):
        assert "--hash=sha256:" in rest, name
        found.setdefault(name, set()).add(version)
    assert "://" not in text
    assert len(found) == len({line.partition("==")[0] for line in text.splitlines() if "==" in line})
    return found


def test_the_lock_of_make_run_has_the_service_and_is_a_part_of_the_whole_lock() -> None:
    everything, run = pins("requirements.lock"), pins("requirements-run.lock")
    assert {name: versions for name, versions in run.items() if not versions <= everything.get(name, set())} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["service"]]
    needed += project["project"]["optional-dependencies"]["client"]
    needed += project["dependency-groups"]["editable"]
    named = {re.split(r"[<>=\[]", one)[0] for one in needed if not one.startswith("coldstream[")}
    assert named <= run.keys()
    assert len(run) < len(everything) / 2


def test_the_core_depends_on_numpy_and_numba_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.split(r"[<>=]", one)[0] for one in project["dependencies"]] == ["numpy", "numba"]


def test_the_unit_is_that_of_the_guide() -> None:
    unit = (DEPLOY / "systemd" / "coldstream@.service").read_text()
    guide = (ROOT / "docs" / "guides" / "production.md").read_text()
    assert unit.partition("\n")[2] in guide


def test_the_containerfile_is_steps_that_make_dist_can_do() -> None:
    image = containerfile.read((DEPLOY / "container" / "Containerfile").read_text())
    assert re.fullmatch(r"docker\.io/library/debian:[a-z]+-slim", image.base)
    assert (image.user, image.volumes, image.ports) == ("coldstream", ("/data",), (8000,))
    assert image.entrypoint[0] == "/bin/sh"
    assert "/ready" in image.health[-1]
    runs = [step for step in image.steps if isinstance(step, containerfile.Run)]
    assert all(run.user == "root" for run in runs)  # nothing is done as the user whom the service runs as
    assert runs[-1].environment == {"NUMBA_CPU_NAME": "x86-64-v3"}
    for run in runs:
        subprocess.run(["sh", "-nc", run.command], check=True)
    copies = [step for step in image.steps if isinstance(step, containerfile.Copy)]
    assert [copy.target for copy in copies] == ["/opt/build/", "/opt/coldstream/bin/start"]
    for source in (source for copy in copies for source in copy.sources if not source.startswith("dist/")):
        assert (ROOT / source).is_file(), source


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ADD a b", "no such instruction is known here: ADD 'a b'"),
        ("COPY --chown=x a b", "COPY has an option that is not known here"),
        ("ENV A b", "ENV must be one NAME=VALUE"),
        ("HEALTHCHECK --interval=3s NONE", "HEALTHCHECK must have a CMD"),
        ("ENTRYPOINT start", "ENTRYPOINT must be a list of words"),
    ],
)
def test_a_step_that_make_dist_cannot_do_is_refused(line: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        containerfile.read(f"FROM debian\n# a comment\nRUN true && \\\n  false\n{line}\n")


def test_the_container_is_careful() -> None:
    steps = (DEPLOY / "container" / "Containerfile").read_text()
    assert "\nUSER coldstream\n" in steps
    assert "HEALTHCHECK" in steps
    baseline = re.search(r"^ENV NUMBA_CPU_NAME=(\S+)$", steps, re.MULTILINE)
    assert baseline is not None
    assert f'BASELINE = "{baseline[1]}"' in (ROOT / "tools" / "packages" / "first_start.py").read_text()
    compose = (DEPLOY / "container" / "compose.yml").read_text()
    for careful in ("read_only: true", "cap_drop: [ALL]", "no-new-privileges", "condition: service_healthy"):
        assert careful in compose
    subprocess.run(["sh", "-n", DEPLOY / "container" / "start"], check=True)
