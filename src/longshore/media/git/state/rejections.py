"""Rejected files on the branch, and the reasons beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

REASON = ".reason.json"
"""The suffix of the file with the reason, beside a rejected file."""
MISSING = "missing"
"""The folder in rejected_work/ with the reports of jobs whose files a person removed."""


class Rejection(msgspec.Struct, kw_only=True, frozen=True):
    """The content of a reason's file."""

    run: str
    reason: str
    path: str
    """The former path of the file; "" for jobs whose files are gone."""
    jobs: int = 1


class _Decode(Protocol):
    def __call__(self, oid: str, kind: type[Rejection], path: str) -> Rejection | None: ...


def count_rejected(found: Mapping[str, str], run: str | None, decoded: _Decode) -> int:
    """Return the number of rejected files and missing jobs among these files; with `run`, of those that belong to it.

    An older Longshore wrote no reasons: its rejected files belong to no run.
    """
    number = 0
    for path, oid in found.items():
        is_report = path.split("/")[1] == MISSING
        if not path.endswith(REASON):
            beside = f"{path.removesuffix('.json')}{REASON}"
            reason = decoded(found[beside], Rejection, beside) if run is not None and beside in found else None
            number += run is None or (reason is not None and reason.run == run)
        elif is_report and (report := decoded(oid, Rejection, path)) is not None and run in (None, report.run):
            number += report.jobs
    return number
