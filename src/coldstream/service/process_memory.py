"""The memory of this process."""

import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
"""Linux's own account, in pages."""


def resident_bytes() -> int:
    """What it has in memory now: interpreter, compiled code, data. Where the system does not tell, the most it ever had."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
