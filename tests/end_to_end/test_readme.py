"""The Python of the README, as somebody runs it who has just installed the package: pasted, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def promised(code: str) -> list[str]:
    """What the comments say that each `print` prints."""
    return [text.strip() for text in re.findall(r"^print\(.*# → (.*)$", code, re.MULTILINE)]


@pytest.mark.parametrize("code", BLOCKS)
def test_what_is_pasted_runs_and_prints_what_it_says(code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised(code)


def test_there_is_something_to_paste_without_prompts() -> None:
    assert BLOCKS
    assert sum(len(promised(code)) for code in BLOCKS) >= 3
    assert not any(line.startswith((">>>", "...")) for code in BLOCKS for line in code.splitlines())
