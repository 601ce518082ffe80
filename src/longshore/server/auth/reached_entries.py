"""The shared entries that a key reaches, if it is limited to some runs or kinds.

Entries about a run or a kind belong to the keys that reach it. Entries that all workers need, as the pace of hosts and
the published code, belong to every key. All others, as schedules, do not exist for a limited key.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from longshore.errors import NotFoundError
from longshore.extensions.kind_schemas import KINDS
from longshore.extensions.published_code import PARTS, PINS, PUBLISHED
from longshore.extensions.shared_state import Entries, StateEntry
from longshore.extensions.worker_orders import ORDERS
from longshore.pacing.store_shared import CLOSED, FORGOTTEN, PACE
from longshore.runs.control.pause import EVERYTHING
from longshore.runs.submit.repeated_scan import SCANS
from longshore.runs.submit.submission import RUN_IDS
from longshore.server.auth.access import Access
from longshore.wrappers.differing_duplicates import DIFFERING
from longshore.wrappers.growth_limits import LEFT_OUT, LIMITS
from longshore.wrappers.job_quota import QUOTA
from longshore.wrappers.paused import PAUSED

_OF_RUNS = frozenset({LIMITS, LEFT_OUT, QUOTA, DIFFERING, PAUSED, PINS, RUN_IDS})
"""Namespaces with an entry for each run."""
_OF_ALL = frozenset({PACE, CLOSED, FORGOTTEN, PUBLISHED, PARTS})
_BY_NAME = frozenset({SCANS, ORDERS})
"""Namespaces whose entries are read by a name that only those who need it know."""


def reached_entries(access: Access, namespace: str, names: frozenset[str] | None, found: Entries) -> Entries:
    """Return what of the entries that were read under these names is within reach."""
    if not access.is_limited:
        return found
    listed = namespace not in _BY_NAME or names is not None
    kept = [each for each in found.entries if listed and _reaches(access, namespace, each)]
    return msgspec.structs.replace(found, entries=tuple(kept))


def check_entries(access: Access, namespace: str, entries: Sequence[StateEntry]) -> None:
    """Raise `NotFoundError` if an entry to write is out of reach."""
    for each in entries if access.is_limited else ():
        if not _reaches(access, namespace, each):
            raise NotFoundError(f"There is no shared entry {ascii(each.name)[:100]} for this key.")


def _reaches(access: Access, namespace: str, entry: StateEntry) -> bool:
    if namespace in _OF_RUNS:
        return access.reaches_run(entry.name) or (namespace == PAUSED and entry.name == EVERYTHING)
    if namespace == KINDS:
        return access.reaches_kind(entry.name)
    if namespace == SCANS:
        run = entry.value.get("run") if isinstance(entry.value, dict) else None
        return access.key.runs is None or (isinstance(run, str) and access.reaches_run(run))
    return namespace in _OF_ALL or namespace in _BY_NAME
