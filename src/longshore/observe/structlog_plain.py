"""Import structlog without Rich, for processes that run only Longshore.

structlog imports Rich if it is installed, for formatted tracebacks that Longshore does not use; in a worker, Rich takes
a tenth of the memory.
"""

from __future__ import annotations

import sys


def import_structlog_alone() -> None:
    """Import structlog as if Rich were not installed. Does nothing if either is already imported.

    Call it only at the start of a process: during the call no thread can import Rich; afterwards all can.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    # A module that is None in `sys.modules` cannot be imported, so structlog treats it as not installed.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401  later imports find it loaded
    finally:
        del sys.modules["rich"]
