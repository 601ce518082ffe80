"""structlog without Rich, for a process that is all ours.

structlog imports Rich wherever it is installed, for pictures of exceptions that no log of ours has; in a worker that is
a tenth of all its memory.
"""

from __future__ import annotations

import sys


def import_structlog_alone() -> None:
    """Import structlog as it is where Rich is not installed. Nothing, where either is imported already.

    Only for the start of a process: meanwhile nobody can import Rich. Afterwards everybody can.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    # What is None in this table cannot be imported, which structlog takes for "not installed".
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401  for those who come after
    finally:
        del sys.modules["rich"]
