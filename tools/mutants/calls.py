"""Which test files call which functions, found by running them once: `python tools/mutants --learn`.

A mutant then meets the tests that call its function, the quickest first, instead of all that lie near. Kernels are compiled
and call nobody, and other processes are not looked into: for both, the room's list stands.
"""

import ast
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = str(ROOT / "src/coldstream") + "/"


class Watch:
    """A plugin of pytest that notes what is called while each test file runs."""

    def __init__(self, path: Path) -> None:
        self._path, self._called, self._seconds = path, dict[str, set[CodeType]](), dict[str, float]()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Look on while one test runs, with its fixtures."""
        file = item.path.relative_to(ROOT).as_posix()
        seen, began = self._called.setdefault(file, set()), time.monotonic()

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                seen.add(frame.f_code)

        threading.setprofile(note)
        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self._seconds[file] = self._seconds.get(file, 0.0) + time.monotonic() - began

    def pytest_sessionfinish(self) -> None:
        """Write it down, beside what other runs have found."""
        known = json.loads(self._path.read_text()) if self._path.exists() else {}
        for file, called in self._called.items():
            own = {_place(code) for code in called if code.co_filename.startswith(_SOURCES)}
            known[file] = {"seconds": round(self._seconds[file], 1), "calls": sorted(own)}
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps(known))


def _place(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(ROOT).as_posix()}:{code.co_firstlineno}"


def callers(path: Path, source: str, file: str, line: int) -> list[str]:
    """The test files that call the function which a line of a source is in, or any of its file's; the quickest first."""
    if not path.exists():
        return []
    places = {f"{file}:{own}" for own in _functions(source, line)}
    known: dict[str, dict[str, Any]] = json.loads(path.read_text())
    found = [test for test, own in known.items() if places & set(own["calls"])]
    return sorted(found, key=lambda test: (known[test]["seconds"], test))


def _functions(source: str, line: int) -> list[int]:
    """The first line of the innermost function around a line, as its code has it; of all functions where there is none."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return [_first(max(around, key=lambda node: node.lineno))] if around else [_first(node) for node in functions]


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
