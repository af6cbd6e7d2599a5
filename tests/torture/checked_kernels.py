"""Kernels validate nothing, so no index may ever leave its array: the same state machine with every access checked."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent.parent


def check_kernels() -> None:
    """Run what calls all kernels with checks compiled in, which takes minutes; raises where an index left its array."""
    units = [str(TESTS / "unit" / name) for name in ("test_recommender.py", "test_neighbours.py")]
    tests = [str(TESTS / "properties" / "test_catalogue.py"), *units]
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-k", "not twin", *tests]
    with tempfile.TemporaryDirectory() as cache:
        checked = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
        run = subprocess.run(command, env=checked, capture_output=True, text=True, cwd=TESTS.parent)
    assert run.returncode == 0, run.stdout[-3000:]
