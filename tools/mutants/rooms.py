"""The rooms that are mutated, and the tests that have to notice: a room's own first, because one that fails is enough."""

import re
from collections.abc import Sequence
from pathlib import Path

_EARLY = (
    "tests/unit/test_recommender.py",
    "tests/unit/scoring/test_scan.py",
    "tests/unit/engine/test_many_at_once.py",
    "tests/unit/test_review.py",
    "tests/unit/test_bad_input.py",
)
"""Those of the library that notice most, before all others that lie beside them."""
_ELSEWHERE = "tests/end_to_end/"
"""Those that look at other processes."""
_NOT_OF_THE_LIBRARY = {"test_docs.py", "test_files.py", "test_mutations.py", "test_public_surface.py", "test_simulate.py"}
_SERVED = (
    "tests/unit/runtime",
    "tests/unit/service",
    "tests/contracts/test_stores.py",
    "tests/unit/storage",
    "tests/contracts/test_checksums.py",
    "tests/contracts/test_compaction.py",
    "tests/contracts/test_retention.py",
    "tests/contracts/test_backup.py",
    "tests/contracts/test_foreign_snapshots.py",
    "tests/contracts/test_shown.py",
    "tests/end_to_end/test_two_servers.py",
    "tests/end_to_end/test_connections.py",
    "tests/end_to_end/test_backup_drill.py",
    "tests/end_to_end/test_replicas.py",
    "tests/end_to_end/test_restarts.py",
    "tests/end_to_end/test_durability.py",
    "tests/end_to_end/test_outages.py",
    "tests/end_to_end/test_openapi.py",
    "tests/end_to_end/test_guide.py",
    "tests/end_to_end/test_signals.py",
    "tests/end_to_end/test_client.py",
    "tests/end_to_end/test_upkeep_kills.py",
)

TESTS: dict[str, tuple[str, ...]] = {
    "model": (
        "tests/unit/model/test_keyed_random.py",
        "tests/kernels/test_finite_differences.py",
        "tests/kernels/test_twin.py",
        "tests/unit/model/test_general_predictor.py",
        "tests/kernels",
        "tests/unit/support/test_code_cache.py",
    ),
    "catalogue": (
        "tests/unit/catalogue/test_combinations.py",
        "tests/unit/catalogue/test_scan_order.py",
        "tests/kernels/test_negatives.py",
    ),
    "scoring": ("tests/unit/catalogue/test_scan_order.py", "tests/contracts/test_scorers.py"),
    "features": ("tests/unit/features/test_schema.py", "tests/unit/features/test_vocabulary.py"),
    "recommender": (
        "tests/unit/engine/test_training.py",
        "tests/unit/users/test_encoded_user.py",
        "tests/unit/features/test_frames.py",
        "tests/unit/runtime/test_partition.py",
        "tests/unit/runtime/test_team.py",
    ),
    "runtime": _SERVED,
    "storage": (
        "tests/contracts/test_stores.py",
        "tests/unit/storage",
        *(test for test in _SERVED if test.startswith("tests/contracts/")),
        *_SERVED,
    ),
    "service": ("tests/unit/service", *_SERVED),
}
"""By room. `model` holds the kernels; `recommender` is all that stands beside the rooms and joins them."""

_LIBRARY = (
    "engine",
    "users",
    "catalogue",
    "features",
    "model",
    "scoring",
    "lists",
    "snapshots",
    "bounds",
    "cluster",
    "support",
)
"""Folders of `tests/unit` whose tests run in the process that starts them."""
_JOINING = ("bounds", "engine", "lists", "snapshots", "users")

_LEFT_OUT = {
    "src/coldstream/model/reference.py",  # the twin: it is what kernels are tested with
    "src/coldstream/service/http/examples.py",  # what the documentation shows
}


def sources(root: Path, room: str) -> list[str]:
    """The files of a room, as paths below the root."""
    package = root / "src/coldstream"
    folders = [package / name for name in (_JOINING if room == "recommender" else (room,))]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    files += [package / "recommender.py"] if room == "recommender" else []
    found = [file.relative_to(root).as_posix() for file in files if file.exists()]
    return [path for path in found if path not in _LEFT_OUT]


def covering(root: Path, room: str, path: str = "", calling: Sequence[str] = ()) -> list[str]:
    """The tests of a room, each once: the nearest first, then the room's, and for the library all that lie beside them.

    Where it is known which of them call what is mutated, those alone, and the ones that start processes of their own.
    """
    near = [*_own_examples(root, path), *_nearest(root, path)] if path else []
    if calling:
        elsewhere = [test for test in TESTS[room] if test.startswith(_ELSEWHERE)]
        new = [test for test in near if test not in calling and not test.startswith(_ELSEWHERE)]
        own = [*new, *(test for test in calling if test in near), *calling, *near, *elsewhere]
        return list(dict.fromkeys(own))
    own = [*near, *TESTS[room]]
    if not set(_SERVED) <= set(own):
        folders = [root / "tests/unit" / folder for folder in ("", *_LIBRARY)]
        beside = [path.relative_to(root).as_posix() for folder in folders for path in sorted(folder.glob("test_*.py"))]
        own += [*_EARLY, *(path for path in beside if Path(path).name not in _NOT_OF_THE_LIBRARY)]
        own += ["tests/properties"]
    return [path for path in dict.fromkeys(own) if (root / path).exists()]


def watched(root: Path) -> list[str]:
    """All tests of all rooms that run in the process that starts them."""
    found = [test for room in TESTS for test in covering(root, room) if not test.startswith(_ELSEWHERE)]
    return list(dict.fromkeys(found))


def _own_examples(root: Path, path: str) -> list[str]:
    """The file itself, where its documentation has examples: they are tests too."""
    return [path] if ">>> " in (root / path).read_text() else []


def _nearest(root: Path, path: str) -> list[str]:
    """Tests of the file's own name, then those that import it or share a word with it: they notice most, and soon."""
    module, name = ".".join(Path(path).with_suffix("").parts[1:]), Path(path).stem
    asks = re.compile(rf"^(from {re.escape(module)} import|import {re.escape(module)}\b)", re.MULTILINE)
    tests = [test for test in sorted((root / "tests").rglob("test_*.py")) if "torture" not in test.parts]
    named = [test for test in tests if test.stem == f"test_{name}"]
    importing = [test for test in tests if asks.search(test.read_text())]
    alike = [test for test in tests if _words(test.stem) & _words(name)]
    return [test.relative_to(root).as_posix() for test in [*named, *importing, *alike]]


def _words(name: str) -> set[str]:
    """The words of a file's name, in the singular, without those that every other name has."""
    return {word.rstrip("s") for word in name.split("_")} - {"test", "sqlite", "postgre", "of", "item", "user", "file"}
