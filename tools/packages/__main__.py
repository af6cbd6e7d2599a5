"""Wheel and sdist: built twice with the same bytes, installed into empty environments, each extra alone, and used there.

Not a part of the tests, because it takes minutes: `make dist`. What is built lies in dist/ afterwards.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from pathlib import Path

from container import try_container
from environments import ROOT, bare, clean, constraints, environment, say, tool
from first_start import try_first_start

EPOCH = "1767225600"
"""The time that stands in archives: a build has to depend on the sources alone."""
USES = {
    "": "from coldstream import Recommender, Schema; Recommender(Schema(), factors=2).put_item('i')",
    "evaluation": "import coldstream.evaluation.report, coldstream.events.readers",
    "service": "import coldstream.service.http.server, coldstream.demo.audience",
    "client": "from coldstream.client import Client; Client().close()",
    "telemetry": "import opentelemetry.sdk.trace, opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "frames": "from coldstream.features.frames import is_frame; import narwhals",
    "ingest": "from coldstream.ingest.source import source_of; source_of('postgresql://h/d')",
    "nats": "from coldstream.ingest.source import source_of; source_of('nats://h/S')",
    "kafka": "from coldstream.ingest.source import source_of; source_of('kafka://h/t')",
    "ray": "from coldstream.cluster.ray.session import loaded; loaded()",
    "river": "from coldstream.river import FMRegressor; FMRegressor(n_factors=2).learn_one({'a': 'b'}, 1.0)",
    "sklearn": "from coldstream.sklearn import FMRegressor; FMRegressor(max_iter=1).fit([[0.0], [1.0]], [0.0, 1.0])",
}
"""What an environment with one extra has to be able to do."""


def built(folder: Path, source: Path = ROOT) -> dict[str, str]:
    """Wheel and sdist in a folder, and their digests by name."""
    subprocess.run(
        [tool("uv"), "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, source],
        env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH},
        check=True,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("coldstream-*"))}


def try_extras(folder: Path, wheel: Path) -> None:
    """Every extra alone, in an environment that has nothing else."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in ["", *(name for name in declared if name != "dev")]:
        python = environment(folder / f"with-{extra or 'nothing'}", wheel, extra)
        done = bare(python, "-c", USES[extra])
        assert done.returncode == 0, f"{extra}: {done.stderr}"
        say(f"  coldstream[{extra}] is installed alone and used" if extra else "  coldstream is installed alone and used")
    alone = folder / "with-nothing" / "bin"
    listed = bare(alone / "python", "-m", "coldstream", "--help")
    assert listed.returncode == 0, listed.stderr
    missing = bare(alone / "python", "-m", "coldstream", "serve")
    assert "pip install 'coldstream[service]'" in missing.stderr, missing.stderr


def try_demo(folder: Path, wheel: Path) -> None:
    """`uvx coldstream demo`: nothing is installed before, and nothing is left behind."""
    folder.mkdir()
    wanted = f"coldstream[service] @ {wheel.as_uri()}"
    demo = ["coldstream", "demo", "--headless", "--events", "300"]
    start = time.perf_counter()
    done = subprocess.run(
        [tool("uvx"), "--quiet", "--python", sys.executable, "--constraints", constraints(folder), "--from", wanted, *demo],
        env=clean(NUMBA_CACHE_DIR=str(folder / "kernels")),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "300 events" in done.stdout, done.stdout
    say(
        f"uvx --from 'coldstream[service]' coldstream demo --headless: {time.perf_counter() - start:.0f} s, kernels included"
    )


def try_make_run(source: Path) -> None:
    """`make run` in a copy of the sources: what it installs has to be enough for the demo, and no more than it names."""
    start = time.perf_counter()
    done = subprocess.run(
        ["make", "run", f"PYTHON={sys.executable}", "DEMO=--headless --events 300"],
        env=clean(NUMBA_CACHE_DIR=str(source / "kernels")),
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 events" in done.stdout, done.stdout
    listed = subprocess.run(
        [source / ".venv/bin/python", "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    )
    there = {line.partition("==")[0].lower().replace("_", "-") for line in listed.stdout.splitlines()}
    lock = (source / "requirements-run.lock").read_text()
    pinned = {line.partition("==")[0] for line in lock.splitlines() if "==" in line}
    beyond = there - pinned - {"coldstream", "pip", "setuptools"}
    assert not beyond, f"make run installs more than it needs: {sorted(beyond)}"
    say(f"make run in a fresh copy, 300 events without a page: {time.perf_counter() - start:.0f} s, kernels included")


def main() -> int:
    """All of it; 0 where all of it works."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        once, again = built(folder / "once"), built(folder / "again")
        assert once == again, f"two builds differ: {once} {again}"
        say("built twice, the same bytes:")
        for name, digest in once.items():
            say(f"  {name}  sha256 {digest}")
        (sdist,) = (folder / "once").glob("*.tar.gz")
        (wheel,) = (folder / "once").glob("*.whl")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        (source,) = (folder / "unpacked").iterdir()
        from_sdist = built(folder / "from-sdist", source)
        assert from_sdist[wheel.name] == once[wheel.name], "the wheel of the sdist is another"
        say("the wheel that the sdist leads to is the same")
        say("tried in empty environments:")
        try_extras(folder, wheel)
        say("the first start with compiled kernels:")
        try_first_start(folder, folder / "with-service" / "bin" / "python")
        try_demo(folder / "uvx", wheel)
        try_make_run(source)
        (ROOT / "dist").mkdir(exist_ok=True)
        for path in (ROOT / "dist").glob("coldstream-*"):
            path.unlink()
        for path in (sdist, wheel):
            shutil.copy2(path, ROOT / "dist")
        if os.geteuid() == 0 and shutil.which("debootstrap"):
            say("the Containerfile, in an empty Debian:")
            try_container(folder)
        else:
            say("the Containerfile was not tried: that needs root, and Debian's debootstrap")
    return 0


if __name__ == "__main__":
    sys.exit(main())
