"""A read-only installation without a writable home can be imported and used."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import coldstream
import coldstream.support.compiled as compiled_module

USE = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import coldstream
    from coldstream.model.losses import sigmoid
    half = sigmoid(0.0)
import numba
print(half, numba.config.CACHE_DIR or "as it was")
for one in said:
    print(one.category.__name__, one.message)
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which nothing can be kept beside the sources, not even by root: a file is where the folder would be."""
    folder = tmp_path_factory.mktemp("read-only")
    source = Path(coldstream.__file__).parent
    shutil.copytree(source, folder / "coldstream", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [folder / "coldstream", *(folder / "coldstream").rglob("*/")]:
        if path.is_dir():
            (path / "__pycache__").write_text("in the way")
    return folder


def used(installation: Path, temporary: Path, **changes: str) -> list[str]:
    left_out = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONWARNINGS")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"PYTHONPATH": str(installation), "HOME": "/proc/nobody", "TMPDIR": str(temporary)} | changes
    ran = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def kept(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("losses.sigmoid*.nbi")]


def test_code_is_kept_among_the_temporary_files_and_that_is_said_once(installation: Path, tmp_path: Path) -> None:
    first, *said = used(installation, tmp_path)
    assert first == "0.5 as it was"
    own = tmp_path / f"coldstream-machine-code-{os.getuid()}"
    assert len(said) == 1
    assert said[0].startswith(f"RuntimeWarning machine code is kept in {str(own)!r}, because neither the installation nor")
    assert said[0].endswith("set NUMBA_CACHE_DIR to a folder that can be written")
    assert len(kept(own)) == 1
    assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("trap", ["writable by others", "a file", "a link"])
def test_a_folder_that_is_not_ours_alone_is_not_used(trap: str, installation: Path, tmp_path: Path) -> None:
    """Whoever can write there could have us run anything."""
    temporary, elsewhere = tmp_path / "tmp", tmp_path / "elsewhere"
    temporary.mkdir()
    elsewhere.mkdir(mode=0o700)
    own = temporary / f"coldstream-machine-code-{os.getuid()}"
    if trap == "writable by others":
        own.mkdir()
        own.chmod(0o777)
    elif trap == "a file":
        own.write_text("")
    else:
        own.symlink_to(elsewhere)
    first, *said = used(installation, temporary)
    assert first == "0.5 as it was"
    assert len(said) == 1
    assert said[0].startswith("RuntimeWarning machine code cannot be kept anywhere: every start compiles it again")
    assert kept(tmp_path) == []


def test_the_folder_that_numba_was_told_is_used_and_nothing_is_said(installation: Path, tmp_path: Path) -> None:
    told, temporary = tmp_path / "told", tmp_path / "tmp"
    temporary.mkdir()
    assert used(installation, temporary, NUMBA_CACHE_DIR=str(told)) == [f"0.5 {told}"]
    assert len(kept(told)) == 1
    assert list(temporary.iterdir()) == []


# The same in this process, step by step


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiled_module.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_the_folder_of_an_earlier_start_is_found_again(temporary: Path) -> None:
    own = compiled_module._own_folder()
    assert own == temporary / f"coldstream-machine-code-{os.getuid()}"
    (own / "code").write_text("kept")
    assert compiled_module._own_folder() == own
    assert [path.name for path in own.iterdir()] == ["code"], "what was written to try it is gone"


@pytest.mark.parametrize("mode", [0o770, 0o750, 0o704, 0o701])
def test_a_folder_that_is_open_to_others_in_any_way_is_none(temporary: Path, mode: int) -> None:
    own = compiled_module._own_folder()
    assert own is not None
    own.chmod(mode)
    assert compiled_module._own_folder() is None


def test_somebody_elses_folder_is_none_and_so_is_no_folder_at_all(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = compiled_module._own_folder()
    monkeypatch.setattr(compiled_module.os, "getuid", lambda: 4321)
    theirs = temporary / "coldstream-machine-code-4321"
    theirs.mkdir(mode=0o700)
    assert compiled_module._own_folder() is None
    monkeypatch.undo()
    monkeypatch.setattr(compiled_module.tempfile, "gettempdir", lambda: str(temporary / "nowhere"))
    assert compiled_module._own_folder() is None
    assert own is not None


@pytest.mark.parametrize("there", [True, False])
def test_what_cannot_be_kept_beside_the_sources_is_kept_there_or_nowhere(
    there: bool, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_module, "_said", False)
    if not there:
        monkeypatch.setattr(compiled_module, "_own_folder", lambda: None)
    config, asked = compiled_module.numba.config, list[tuple[bool, str]]()
    before = config.CACHE_DIR

    def compile_(cache: bool) -> str:
        asked.append((cache, config.CACHE_DIR))
        if cache and before == config.CACHE_DIR:
            raise RuntimeError("cannot cache function: no locator available for file")
        return "compiled"

    with pytest.warns(RuntimeWarning, match="is kept in" if there else "cannot be kept anywhere") as said:
        assert [compiled_module.cached(compile_) for _ in range(2)] == ["compiled"] * 2
    assert len(said) == 1, "once for all kernels"
    own = str(compiled_module._own_folder()) if there else before
    assert asked == [(True, before), (there, own)] * 2
    assert before == config.CACHE_DIR


def test_other_errors_of_a_compiler_are_told() -> None:
    def compile_(cache: bool) -> None:
        raise RuntimeError("out of registers")

    with pytest.raises(RuntimeError, match="out of registers"):
        compiled_module.cached(compile_)
