"""Which files of a package a file is a part of, because they import it, or import what imports it."""

import ast
from pathlib import Path


def dependents(sources: Path, path: str) -> set[str]:
    """The file itself and all that import it, directly or by way of others; paths below the sources."""
    importers: dict[str, set[str]] = {}
    for file in sources.rglob("*.py"):
        own = file.relative_to(sources).as_posix()
        for imported in _imported(sources, file):
            importers.setdefault(imported, set()).add(own)
    found, new = {path}, {path}
    while new := {own for one in new for own in importers.get(one, ())} - found:
        found |= new
    return found


def _imported(sources: Path, file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    paths = {f"{name.replace('.', '/')}.py" for name in names}
    return {path for path in paths if (sources / path).exists()}
