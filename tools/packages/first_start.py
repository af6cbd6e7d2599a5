"""The first start of a service whose kernels were compiled before: from exec to its first recommendation.

`python tools/packages/first_start.py PYTHON` measures that of an environment where coldstream is installed. The machine may
be busy, so what is asked for is time of the processor; how long it took by the clock is printed beside it.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from environments import ROOT, bare, clean, processor_seconds, say

BASELINE = "x86-64-v3"
FIRST_START = 5.0
"""Seconds that a first start may take."""


class Start(NamedTuple):
    """When a start had come how far, in seconds since exec."""

    listening: float
    ready: float
    answered: float
    processor: float
    """Seconds of processor time up to the first answer, of all its threads."""


def try_first_start(folder: Path, python: Path) -> None:
    """Kernels compiled for a baseline, copied elsewhere, and a service that starts for the first time."""
    kernels, copied = folder / "kernels", folder / "copied"
    start = time.perf_counter()
    done = bare(python, "-m", "coldstream", "compile", NUMBA_CACHE_DIR=str(kernels), NUMBA_CPU_NAME=BASELINE)
    assert done.returncode == 0, done.stderr
    size = sum(path.stat().st_size for path in kernels.rglob("*") if path.is_file())
    count = len(list(kernels.rglob("*.nbc")))
    say(f"  {count} kernels for {BASELINE}: {time.perf_counter() - start:.0f} s to compile, {size / 2**20:.1f} MiB")
    shutil.copytree(kernels, copied)
    for what in ("the first start", "a second one", "a third one"):
        one = started(python, folder / "data", NUMBA_CACHE_DIR=str(copied), NUMBA_CPU_NAME=BASELINE)
        say(
            f"  {what}: listens after {one.listening:.1f} s, is ready after {one.ready:.1f} s, has recommended after "
            f"{one.answered:.1f} s; {one.processor:.1f} s of processor time (wanted: {FIRST_START:g})"
        )
        assert one.processor < FIRST_START
    new = {path.name for path in copied.rglob("*.nbc")} - {path.name for path in kernels.rglob("*.nbc")}
    assert not new, f"kernels that had to be compiled after all: {sorted(new)}"


def started(python: Path, data: Path, **variables: str) -> Start:
    """A start on a folder, up to the first recommendation."""
    schema = ROOT / "examples" / "schema.toml"
    command = [python, "-m", "coldstream", "serve", "--schema", schema, "--data", data, "--port", "0"]
    begun = time.perf_counter()
    with subprocess.Popen(command, env=clean(**variables), cwd=data.parent, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            when, address = {}, ""
            for line in server.stderr:
                said = json.loads(line) if line.startswith("{") else {}
                when[said.get("event")] = time.perf_counter() - begun
                address = said.get("address", address)
                if "ready" in when:
                    break
            assert "ready" in when, server.stderr.read()
            _post(f"{address}/items", [{"id": "m50", "attributes": {"genre": ["Sci-Fi"]}}, {"id": "m51"}])
            assert len(_post(f"{address}/recommend", {"user": "u1"})["items"]) == 2
            answered = time.perf_counter() - begun
            processor = processor_seconds(server.pid)
        finally:
            server.terminate()
            server.stderr.read()  # type: ignore[union-attr]
            server.wait(60)
    return Start(when["listening"], when["ready"], answered, processor)


def _post(url: str, body: object) -> dict[str, list[object]]:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        found: dict[str, list[object]] = json.load(answer)
        return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        try_first_start(Path(scratch), Path(sys.argv[1]).absolute())
