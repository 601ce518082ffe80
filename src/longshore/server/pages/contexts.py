"""The values that the templates of live parts show, from a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from longshore.queue import Count, totals
from longshore.runs.control.pause import EVERYTHING
from longshore.runs.estimate.estimate import Binding, Estimate
from longshore.server.live.live_reader import TopicSnapshot
from longshore.server.live.needs import needs_of
from longshore.server.live.topics import Figures
from longshore.server.pages.us_states import GRID, are_states, code_of
from longshore.top.figures import LaneFigures, QueueFigures
from longshore.top.throughput_columns import columns_of
from longshore.ui.estimate_words import binding_words

RUNS_SHOWN = 50
ROWS_SHOWN = 50
PARTITIONS_SHOWN = 400
_COLUMNS = 120
_LEVELS = 5


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the list of runs."""

    count: Count
    per_second: float
    left: float | None
    """Seconds at the present rate."""
    p50: float | None = None
    p90: float | None = None
    binds: str = ""
    state: str
    """`running`, `waiting`, `paused`, `finished`."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One partition in the heat map."""

    label: str
    name: str = ""
    """The partition; empty for a gap."""
    count: Count = Count()
    level: int = 0
    """From 0 (nothing done) to 5 (all done)."""
    bad: bool = False
    """Whether an unusual share failed."""


def figures_of(snapshot: TopicSnapshot) -> Figures:
    """Return the figures of a snapshot of a queue or a run."""
    assert isinstance(snapshot.value, Figures)  # noqa: S101  the topic of this page has no other values
    return snapshot.value


def overview_context(snapshot: TopicSnapshot, text: str, page: int, proxies: str = "") -> dict[str, Any]:
    """Return the values of the list of runs."""
    seen = figures_of(snapshot)
    board = seen.board
    lanes = [lane for lane in board.lanes if text.lower() in lane.count.run.lower()]
    pages = max(-(-len(lanes) // RUNS_SHOWN), 1)
    page = min(max(page, 1), pages)
    return {
        **_live_context(snapshot, seen, proxies),
        "runs": [_run_row(lane, seen) for lane in lanes[(page - 1) * RUNS_SHOWN : page * RUNS_SHOWN]],
        "number_of_runs": len(board.lanes),
        "matching_runs": len(lanes),
        "waiting_runs": sum(bool(lane.count.remaining) for lane in board.lanes),
        "machines": len({row.machine for row in board.workers if row.machine and not row.unseen}),
        "present": sum(not row.unseen for row in board.workers),
        "text": text,
        "page": page,
        "pages": pages,
    }


def run_context(snapshot: TopicSnapshot, run: str) -> dict[str, Any]:
    """Return the values of the page of one run."""
    seen = figures_of(snapshot)
    board = seen.board
    lane = LaneFigures(
        count=msgspec.structs.replace(board.count, run=run), per_second=board.per_second, left=board.left
    )
    kinds = _by([lane.count for lane in board.lanes], "kind")
    return {
        **_live_context(snapshot, seen),
        "run": run,
        "row": _run_row(lane, seen),
        "estimate": board.estimate,
        "binding": _binding(board.estimate),
        "chart": _chart(board, snapshot.at),
        "kinds": [msgspec.structs.replace(totals(counts), run=run, kind=kind) for kind, counts in kinds.items()],
        **_partitions(board),
    }


def _live_context(snapshot: TopicSnapshot, seen: Figures, proxies: str = "") -> dict[str, Any]:
    board = seen.board
    return {
        "board": board,
        "needs": needs_of(seen, proxies),
        "trouble": snapshot.trouble,
        "trouble_since": snapshot.at,
        "rows_shown": ROWS_SHOWN,
        "everything_paused": EVERYTHING in board.blockers.paused,
    }


def _run_row(lane: LaneFigures, seen: Figures) -> RunRow:
    board, count = seen.board, lane.count
    found = seen.estimates.get(count.run)
    paused = bool(board.blockers.paused.keys() & {count.run, EVERYTHING})
    if not count.remaining:
        state = "receiving" if board.run is not None and board.being_submitted else "finished"
    elif paused:
        state = "paused"
    else:
        state = "running" if count.claimed or lane.per_second else "waiting"
    known = found is not None and found.p50 is not None and state == "running"
    return RunRow(
        count=count,
        per_second=lane.per_second,
        left=None if found is not None and found.binds is Binding.NOBODY else lane.left,
        p50=found.p50 if found is not None and known else None,
        p90=found.p90 if found is not None and known else None,
        binds="" if state in {"paused", "finished"} else _binding(found).partition(": ")[0],
        state=state,
    )


def _binding(found: Estimate | None) -> str:
    """Return what the run waits for, in words; or why that is not known."""
    if found is None:
        return ""
    if found.binds is None or (found.binds is Binding.NOBODY and not found.untaken):
        return found.unknown
    return binding_words(found)


def _chart(board: QueueFigures, now: float) -> dict[str, list[float | None]]:
    """Return the throughput: the times of the columns, and the jobs per second in each."""
    seconds, columns = columns_of(board.spans, _COLUMNS)
    if not seconds:
        return {"times": [], "rates": []}
    each = seconds / len(columns)
    times = [round(now - seconds + (number + 0.5) * each, 1) for number in range(len(columns))]
    return {"times": list(times), "rates": [None if rate is None else round(rate, 3) for rate in columns]}


def _partitions(board: QueueFigures) -> dict[str, Any]:
    parts = _by([lane.count for lane in board.lanes], "partition")
    names = [name for name in parts if name]
    if not names:
        return {"cells": [], "is_map": False, "partitions": 0}
    usual = board.count.failed / max(board.count.completed + board.count.failed, 1)
    cells = {name: _cell(name, totals(counts), usual) for name, counts in parts.items()}
    if are_states(names):
        by_code = {code_of(name): cells[name] for name in names}
        blank = [[_blank(code) if code else Cell(label="") for code in row] for row in GRID]
        placed = [[by_code.get(cell.label, cell) for cell in row] for row in blank]
        shown = [cell for row in placed for cell in row]
        return {"cells": shown, "is_map": True, "partitions": len(names)}
    listed = sorted(names)[:PARTITIONS_SHOWN]
    return {"cells": [cells[name] for name in listed], "is_map": False, "partitions": len(names)}


def _blank(code: str) -> Cell:
    return Cell(label=code)


def _cell(name: str, count: Count, usual: float) -> Cell:
    finished = count.total - count.remaining
    judged = count.completed + count.failed
    level = 0 if not finished else 1 + int((_LEVELS - 1) * finished / max(count.total, 1))
    bad = count.failed >= 3 and count.failed / max(judged, 1) > max(2 * usual, 0.1)
    return Cell(label=code_of(name) or name, name=name, count=count, level=level, bad=bad)


def _by(counts: Sequence[Count], field: str) -> dict[str, list[Count]]:
    found: dict[str, list[Count]] = {}
    for count in counts:
        found.setdefault(getattr(count, field), []).append(count)
    return dict(sorted(found.items()))
