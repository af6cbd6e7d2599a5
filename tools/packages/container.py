"""The Containerfile done step by step in an empty Debian, and the service that comes of it: no rights, a read-only root.

`python tools/packages/container.py`, as root; the wheel has to lie in dist/. It takes minutes.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from containerfile import Image, Run, read
from debian_root import Container, DebianRoot
from environments import ROOT, processor_seconds, say

DEPLOY = ROOT / "deploy" / "container"
PATIENCE = 120.0
"""Seconds for a service to become healthy on a busy machine."""

_ASK = """
import json, sys, urllib.request as u
headers = {"content-type": "application/json", "authorization": "Bearer " + sys.argv[3]}
request = u.Request("http://127.0.0.1:8000" + sys.argv[1], sys.argv[2].encode(), headers)
print(u.urlopen(request, timeout=10).read().decode())
"""


def try_container(folder: Path) -> None:
    """All of it, below a folder."""
    image = read((DEPLOY / "Containerfile").read_text())
    root = built(folder / "root", image)
    config, data = folder / "config", folder / "data"
    key = _configured(config, root)
    owner = (root / "data").stat()
    data.mkdir()
    shutil.chown(data, owner.st_uid, owner.st_gid)
    start = time.perf_counter()
    arguments = ["--config", "/etc/coldstream/serve.toml"]
    with Container(root, image, arguments, {"/data": data}, config, folder / "said") as container:
        container.wait_until_healthy(PATIENCE)
        seconds, processor = time.perf_counter() - start, processor_seconds(container.pid)
        say(f"  its health check is content after {seconds:.1f} s, {processor:.1f} s of processor time")
        _check_rights(container, image)
        _ask(container, image, "/items", [{"id": "m50"}, {"id": "m51"}], key)
        _ask(container, image, "/events", {"user": "u1", "item": "m50"}, key)
        found = _ask(container, image, "/recommend", {"user": "u1"}, key)
        assert found["items"], found
        say("  it learns and recommends, on a read-only root, as a user without rights")
        names = [container.inside("sh", "-c", f"cd {at} && find . -name '*.nbc' | sort").stdout for at in _KERNELS]
        assert names[0] == names[1] != "", f"kernels that had to be compiled after all: {names}"
        assert container.stop() == 0, container.log.read_text()
    assert any(data.iterdir()), "nothing was kept in the volume"


_KERNELS = ("/opt/kernels", "/tmp/kernels")


def built(folder: Path, image: Image) -> Path:
    """The root of an image, by its own steps."""
    base = re.fullmatch(r"docker\.io/library/debian:([a-z]+)-slim", image.base)
    assert base is not None, f"FROM must be Debian's slim image, got {image.base}"
    start = time.perf_counter()
    root = DebianRoot(folder, base[1])
    say(f"  an empty {base[1]}: {time.perf_counter() - start:.0f} s")
    for step in image.steps:
        start = time.perf_counter()
        root.do(step, ROOT)
        words = step.command if isinstance(step, Run) else f"COPY {' '.join(step.sources)}"
        say(f"  {words[:70]}…: {time.perf_counter() - start:.0f} s")
    return folder


def _configured(config: Path, root: Path) -> str:
    """The settings that are shipped, a schema, and a key that the image's user can read."""
    config.mkdir()
    shutil.copy(DEPLOY / "serve.toml", config)
    shutil.copy(ROOT / "examples" / "schema.toml", config / "schema.toml")
    keys = ["keys", "add", "shop", "--scopes", "read,write", "--keys", str(config / "keys.toml")]
    drawn = subprocess.run([sys.executable, "-m", "coldstream", *keys], capture_output=True, text=True, check=True)
    shutil.chown(config / "keys.toml", (root / "data").stat().st_uid)
    return drawn.stdout.strip()


def _check_rights(container: Container, image: Image) -> None:
    status = Path(f"/proc/{container.pid}/status").read_text()
    uid = int(container.inside("id", "-u").stdout)
    assert uid != 0
    assert re.search(rf"^Uid:\t{uid}\t{uid}\t{uid}\t{uid}$", status, re.MULTILINE), status
    for nothing in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"):
        assert nothing in status, status
    for place in ("/probe", "/opt/coldstream/probe", "/etc/coldstream/probe"):
        assert "Read-only file system" in container.inside_as_root("touch", place).stderr, place
    assert image.user == "coldstream"


def _ask(container: Container, image: Image, path: str, body: object, key: str) -> dict[str, object]:
    python = image.health[0]
    done = container.inside(python, "-c", _ASK, path, json.dumps(body), key)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        try_container(Path(scratch))
