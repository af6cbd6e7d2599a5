"""An empty Debian in a folder, the steps of a Containerfile done in it, and what came of them run as a container runs.

No engine for containers is needed, but root is: debootstrap, and namespaces of mounts, processes and the network. What is
mounted is mounted in a namespace of its own, and gone with its last process.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from containerfile import Copy, Image, Run

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MACHINE = "run/machine"
"""Where the machine's own files are seen while an image is built: what its pip is told to read may lie there."""


class DebianRoot:
    """A folder that becomes the root of an image."""

    def __init__(self, folder: Path, suite: str) -> None:
        self.folder = folder
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", suite, str(folder)], stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"debootstrap {suite} ended with {done.returncode}: {done.stdout[-2000:]}")

    def do(self, step: Run | Copy, context: Path) -> None:
        """One step, as an engine does it."""
        if isinstance(step, Copy):
            self._copy(step, context)
            return
        (self.folder / MACHINE).mkdir(parents=True, exist_ok=True)
        root, machine = shlex.quote(str(self.folder)), shlex.quote(str(self.folder / MACHINE))
        mounts = f"mount -t proc proc {root}/proc; mount --bind / {machine}; mount -o remount,bind,ro {machine}"
        inside = ["chroot", f"--userspec={step.user}", str(self.folder), "/bin/sh", "-c", step.command]
        subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", f'{mounts}; exec "$@"', "sh", *inside],
            env={"PATH": PATH, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"} | _pip_settings() | step.environment,
            check=True,
        )

    def _copy(self, step: Copy, context: Path) -> None:
        target = self.folder / step.target.lstrip("/")
        found = [path for pattern in step.sources for path in sorted(context.glob(pattern))]
        missing = [pattern for pattern in step.sources if not any(context.glob(pattern))]
        if missing:
            raise FileNotFoundError(f"COPY {' '.join(missing)}: there is no such file in {context}")
        folder = target if step.target.endswith("/") else target.parent
        folder.mkdir(parents=True, exist_ok=True)
        if len(found) > 1 and folder is not target:
            raise ValueError(f"COPY of {len(found)} files needs a folder, got {step.target}")
        for path in found:
            shutil.copy(path, target)


class Container:
    """The image's entry point: its user without rights, a root that is read-only, a network of its own.

    `volumes` says which folders of the machine are the image's; `config` is seen at /etc/coldstream, read-only.
    """

    def __init__(
        self, root: Path, image: Image, arguments: Sequence[str], volumes: Mapping[str, Path], config: Path, log: Path
    ) -> None:
        self._root, self._image, self.log = root, image, log
        script = ["ip link set lo up"]
        for inside, outside in volumes.items():
            script.append(_mount(root, inside, f"--bind {shlex.quote(str(outside))}"))
        script += [
            _mount(root, "/etc/coldstream", f"--bind {shlex.quote(str(config))}"),
            f"mount -o remount,bind,ro {shlex.quote(str(root / 'etc/coldstream'))}",
            *(_mount(root, inside, "-t tmpfs tmpfs") for inside in ("/tmp", "/dev/shm", "/run")),
            _mount(root, "/proc", "-t proc proc"),
        ]
        # First of all the root becomes a mount, last it becomes read-only; what is mounted below stays as it is.
        quoted = shlex.quote(str(root))
        script = [f"mount --bind {quoted} {quoted}", *script, f"mount -o remount,bind,ro {quoted}", 'exec "$@"']
        command = ["chroot", str(root), *self._unprivileged(), *image.entrypoint, *arguments]
        namespaces = ["--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child"]
        with open(log, "wb") as said:
            self._process = subprocess.Popen(
                ["unshare", *namespaces, "sh", "-euc", "; ".join(script), "sh", *command],
                env={"PATH": PATH} | image.environment,
                stdout=said,
                stderr=said,
            )

    @property
    def pid(self) -> int:
        """The process of the entry point, as the machine counts."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])

    def is_healthy(self) -> bool:
        """What the health check of the image says."""
        return self.inside(*self._image.health).returncode == 0

    def wait_until_healthy(self, seconds: float) -> None:
        """Come back when the health check is content."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f"the container ended with {self._process.returncode}:\n{self.log.read_text()}")
            if self._is_within() and self.is_healthy():
                return
            time.sleep(0.1)
        raise TimeoutError(f"not healthy after {seconds:g} s:\n{self.log.read_text()}")

    def inside(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """A command in the container, by its user."""
        return self._entered([*self._unprivileged(), *command])

    def inside_as_root(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """A command in the container, by one who may do everything that its mounts let anybody do."""
        return self._entered(command)

    def stop(self) -> int:
        """What SIGTERM makes of it: its status."""
        os.kill(self.pid, 15)
        return self._process.wait(60)

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()  # and with it, by --kill-child, all that it started
        self._process.wait(60)

    def _is_within(self) -> bool:
        """Whether the mounts are done and the root is changed."""
        try:
            return os.path.samefile(f"/proc/{self.pid}/root", self._root)
        except (OSError, IndexError):
            return False

    def _entered(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        entry = ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--ipc", "--root", "--wd"]
        environment = {"PATH": PATH} | self._image.environment
        return subprocess.run([*entry, *command], env=environment, capture_output=True, text=True, check=False)

    def _unprivileged(self) -> list[str]:
        user = self._image.user
        rights = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        return ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *rights, "--"]


def _mount(root: Path, inside: str, how: str) -> str:
    place = shlex.quote(str(root / inside.lstrip("/")))
    return f"mkdir -p {place}; mount {how} {place}"


def _pip_settings() -> dict[str, str]:
    """What this machine tells its pip, as variables; files are found below `MACHINE`."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        below = re.sub(r"(^|\s|file://)(/\S+)", rf"\1/{MACHINE}\2", value.strip("'\""))
        settings["PIP_" + name.rpartition(".")[2].upper().replace("-", "_")] = below
    return settings
