"""The run of a scan: the same scan again joins the run that it made, from any machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.extensions.find import find
from longshore.extensions.shared_state import UNCHANGED, SharedState, StateEntry, update_entry
from longshore.queue import Queue
from longshore.runs.sources.scan import Scan
from longshore.runs.submit.submission import new_run_id

SCANS = "scans"
"""The namespace: the run of each scan."""


async def run_of_scan(queue: Queue, kind: str, scan: Scan, clock: Clock) -> tuple[str, bool]:
    """Return the run that the same scan for this kind of job has made, and True; else the id of a new run, and False.

    A run that was pruned is not joined. A queue without shared state cannot tell; each scan makes a run.
    """
    new = await new_run_id(queue, clock)
    state = find(queue, SharedState)
    if state is None:
        return new, False

    async def change(entry: StateEntry, _: float) -> object:
        before = _run_in(entry)
        return UNCHANGED if before is not None and await queue.stats(before) else {"run": new}

    busy = QueueUnavailableError(f"Too many processes scan {scan.folder} at the same time. Try again.")
    run = _run_in((await update_entry(state, SCANS, _name(kind, scan), change, busy)).after) or new
    return run, run != new


def _run_in(entry: StateEntry) -> str | None:
    run = entry.value.get("run") if isinstance(entry.value, dict) else None
    return run if isinstance(run, str) else None


def _name(kind: str, scan: Scan) -> str:
    parts = [kind, str(Path(scan.folder).resolve()), scan.glob, scan.year, scan.limit]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]
