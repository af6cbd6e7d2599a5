"""Mutants that no test can notice, because they do the same; each with the reason."""

import tomllib
from collections.abc import Iterable
from pathlib import Path

from mutations import mutations_of

_LIST = Path(__file__).parent / "equivalent.toml"


Change = tuple[str, str, str]
"""A file, its lines as they are, and the lines as mutated."""


def equivalents() -> dict[Change, str]:
    """Why nobody can tell a mutant from the code."""
    document = tomllib.loads(_LIST.read_text()) if _LIST.exists() else {}
    return {(own["path"], own["was"], own["is"]): own["why"] for own in document.get("equivalent", [])}


def outdated(changes: Iterable[Change], root: Path) -> list[Change]:
    """Those of code that is not there any more: they can go from the list."""
    found: dict[str, set[tuple[str, str]]] = {}
    for path, _, _ in (changes := list(changes)):
        source = (root / path).read_text() if (root / path).exists() else ""
        found[path] = {own.before_and_after(source) for own in mutations_of(path, source)}
    return [(path, was, is_) for path, was, is_ in changes if (was, is_) not in found[path]]
