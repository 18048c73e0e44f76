"""The memory of this process."""

import os
import sys
from pathlib import Path


def resident_memory() -> int:
    """Bytes of memory that this process holds; where no /proc is, the most it ever held.

    0 where nothing can be asked.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return _peak()


def _peak() -> int:
    try:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    except (ImportError, OSError, ValueError):
        return 0
    return peak if sys.platform == "darwin" else peak * 1024
