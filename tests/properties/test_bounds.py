"""Kernels validate nothing, so no index may ever leave its array: the same state machine with every access checked."""

import os
import subprocess
import sys
from pathlib import Path


def test_no_kernel_reads_or_writes_out_of_bounds(tmp_path: Path) -> None:
    here = Path(__file__).parent
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    units = [str(here.parent / "unit" / name) for name in ("test_recommender.py", "test_neighbours.py")]
    tests = [str(here / "test_catalogue.py"), *units]
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-k", "not twin", *tests]
    run = subprocess.run(command, env=os.environ | checked, capture_output=True, text=True, cwd=here.parent.parent)
    assert run.returncode == 0, run.stdout[-3000:]
