"""The records of a run, and reparsing its stored pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshore.runs.records.run_records import surveyed
else:
    from longshore.system.lazy_exports import lazy_exports

    # The documentation imported it from here.
    __getattr__ = lazy_exports(__name__, {"surveyed": "run_records"})

__all__ = ["surveyed"]
