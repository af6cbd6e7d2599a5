"""Empty environments with the wheel in them, and commands that see nothing of the repository."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def say(text: str) -> None:
    """One line of the report."""
    print(text, flush=True)


def tool(name: str) -> Path:
    """A program of the environment that runs this."""
    return Path(sys.executable).with_name(name)


def constraints(folder: Path) -> Path:
    """A file with the versions of the lock."""
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith(" ")]
    path = folder / "constraints.txt"
    path.write_text("\n".join(line.removesuffix(" \\") for line in lines))
    return path


def environment(folder: Path, wheel: Path, extra: str) -> Path:
    """The Python of an empty environment with the wheel and one extra, in the versions of the lock."""
    subprocess.run([tool("uv"), "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    command = [tool("uv"), "pip", "install", "--quiet", "--python", python, "-c", constraints(folder), wanted]
    subprocess.run(command, check=True)
    return python


def clean(**more: str) -> dict[str, str]:
    """The variables of this process without those that are about Python or coldstream, and some more."""
    ours = ("PYTHON", "COLDSTREAM", "NUMBA")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more


def bare(python: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """A command in an environment, from a folder that has nothing of the repository."""
    return subprocess.run(
        [python, *arguments], env=clean(**more), cwd=python.parent, capture_output=True, text=True, check=False
    )


def processor_seconds(process: int) -> float:
    """Seconds of processor time that all threads of a process have had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
