"""Wheel and sdist: built twice with the same bytes, installed into empty environments, each extra alone, and used there.

Not a part of the tests, because it takes minutes: `make dist`. What is built lies in dist/ afterwards.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
EPOCH = "1767225600"
"""The time that stands in archives: a build has to depend on the sources alone."""
BASELINE = "x86-64-v3"
FIRST_START = 5.0

USES = {
    "": "from coldstream import Recommender, Schema; Recommender(Schema(), factors=2).put_item('i')",
    "evaluation": "import coldstream.evaluation.report, coldstream.events.readers",
    "service": "import coldstream.service.server, coldstream.demo.audience",
    "client": "from coldstream.client import Client; Client().close()",
    "telemetry": "import opentelemetry.sdk.trace, opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "frames": "from coldstream.frames import is_frame; import narwhals",
    "ingest": "from coldstream.ingest.source import source_of; source_of('postgresql://h/d')",
    "nats": "from coldstream.ingest.source import source_of; source_of('nats://h/S')",
    "kafka": "from coldstream.ingest.source import source_of; source_of('kafka://h/t')",
    "ray": "from coldstream.engines.ray.session import loaded; loaded()",
    "river": "from coldstream.river import FMRegressor; FMRegressor(n_factors=2).learn_one({'a': 'b'}, 1.0)",
    "sklearn": "from coldstream.sklearn import FMRegressor; FMRegressor(max_iter=1).fit([[0.0], [1.0]], [0.0, 1.0])",
}
"""What an environment with one extra has to be able to do."""


def say(text: str) -> None:
    """One line of the report."""
    print(text, flush=True)


def built(folder: Path, source: Path = ROOT) -> dict[str, str]:
    """Wheel and sdist in a folder, and their digests by name."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": EPOCH}
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [uv, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, source],
        env=environment,
        check=True,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("coldstream-*"))}


def environment(folder: Path, wheel: Path, extra: str) -> Path:
    """The Python of an empty environment with the wheel and one extra, in the versions of the lock."""
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith(" ")]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(line.removesuffix(" \\") for line in lines))
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, "-c", constraints, wanted], check=True)
    return python


def bare(python: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """A command in an environment, from a folder that has nothing of the repository."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COLDSTREAM"))}
    return subprocess.run(
        [python, *arguments], env=clean | more, cwd=python.parent, capture_output=True, text=True, check=False
    )


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


def try_first_start(folder: Path, python: Path) -> None:
    """Kernels compiled for a baseline, copied elsewhere, and a service that is ready for the first time."""
    kernels, copied = folder / "kernels", folder / "copied"
    start = time.perf_counter()
    done = bare(python, "-m", "coldstream", "compile", NUMBA_CACHE_DIR=str(kernels), NUMBA_CPU_NAME=BASELINE)
    assert done.returncode == 0, done.stderr
    size = sum(path.stat().st_size for path in kernels.rglob("*") if path.is_file())
    say(f"  kernels for {BASELINE}: {time.perf_counter() - start:.0f} s to compile, {size / 2**20:.0f} MiB")
    shutil.copytree(kernels, copied)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COLDSTREAM"))}
    clean |= {"NUMBA_CACHE_DIR": str(copied), "NUMBA_CPU_NAME": BASELINE}
    command = [
        python,
        "-m",
        "coldstream",
        "serve",
        "--schema",
        ROOT / "examples" / "schema.toml",
        "--data",
        folder / "data",
        "--port",
        "0",
    ]
    for what in ("the first start", "a second one"):
        start = time.perf_counter()
        with subprocess.Popen(command, env=clean, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            address = ""
            for line in server.stderr:
                said = json.loads(line) if line.startswith("{") else {}
                address = said.get("address", address)
                if said.get("event") == "ready":
                    break
            seconds = time.perf_counter() - start
            with urllib.request.urlopen(f"{address}/ready", timeout=10) as answer:
                assert answer.status == 200
            server.terminate()
            server.stderr.read()
            server.wait(60)
        say(f"  {what} with compiled kernels is ready after {seconds:.1f} s (wanted: {FIRST_START:g})")
    new = {path.name for path in copied.rglob("*.nbc")} - {path.name for path in kernels.rglob("*.nbc")}
    say(f"  kernels that had to be compiled after all: {len(new)}")


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
        try_first_start(folder, folder / "with-service" / "bin" / "python")
        (ROOT / "dist").mkdir(exist_ok=True)
        for path in (sdist, wheel):
            shutil.copy2(path, ROOT / "dist")
    return 0


if __name__ == "__main__":
    sys.exit(main())
