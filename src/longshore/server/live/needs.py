"""Find the things that need a person in the figures: the few lines at the top of a page."""

from __future__ import annotations

import msgspec

from longshore.queue import Count
from longshore.runs.control.pause import EVERYTHING
from longshore.server.live.topics import Figures
from longshore.top.figures import QueueFigures
from longshore.wrappers.differing_duplicates import advice

STALLED_SECONDS = 300.0
"""Without a finished job for this long, a queue with workers is stalled."""
_MOST = 6
"""Lines of one kind; more are summed up in one."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs a person."""

    sort: str
    """`no worker`, `host closed`, `proxies rest`, `paused`, `stalled`, `left out`."""
    severe: bool = False
    kind: str = ""
    host: str = ""
    run: str = ""
    jobs: int = 0
    seconds: float = 0.0
    since: float | None = None
    why: str = ""
    more: int = 0
    """Further ones of the same sort."""


def needs_of(seen: Figures, proxies: str = "") -> list[Need]:
    """Return the things that need a person, the most urgent first. `proxies` says that all proxies rest."""
    board = seen.board
    needs = [*_no_worker(board), *_stalled(board), *_closed(board)]
    if proxies and board.count.remaining:
        needs.append(Need(sort="proxies rest", severe=True, why=proxies))
    needs += [
        Need(sort="paused", run=run, since=since, jobs=_waiting(board, run))
        for run, since in sorted(board.blockers.paused.items())
        if run == EVERYTHING or _waiting(board, run)
    ]
    needs += [
        Need(sort="left out", run=run, jobs=each.jobs, why=advice(each))
        for run, each in sorted(board.blockers.differing.items())
    ]
    return _shortened(needs)


def _no_worker(board: QueueFigures) -> list[Need]:
    if EVERYTHING in board.blockers.paused or board.active.workers is None:
        return []
    if not board.active.workers:
        waits = sum(lane.count.remaining for lane in board.lanes if lane.count.run not in board.blockers.paused)
        return [Need(sort="no worker", severe=True, jobs=waits)] if waits else []
    return [Need(sort="no worker", severe=True, kind=kind) for kind in board.untaken]


def _stalled(board: QueueFigures) -> list[Need]:
    closed = {host.host for host in board.hosts if host.closed_for > 0}
    waits_for_hosts = bool(closed) and all(host.host in closed for host in board.hosts if host.waiting)
    going_on = not board.blockers.paused and not waits_for_hosts and board.active.workers
    if not going_on or not board.count.remaining or board.idle < STALLED_SECONDS:
        return []
    return [Need(sort="stalled", severe=True, seconds=board.idle, jobs=board.count.remaining)]


def _closed(board: QueueFigures) -> list[Need]:
    return [
        Need(sort="host closed", host=host.host, jobs=host.waiting, seconds=host.closed_for, why=host.why)
        for host in board.hosts
        if host.closed_for > 0
    ]


def _waiting(board: QueueFigures, run: str) -> int:
    counts: list[Count] = [lane.count for lane in board.lanes]
    return sum(count.remaining for count in counts if run in (EVERYTHING, count.run))


def _shortened(needs: list[Need]) -> list[Need]:
    shown: list[Need] = []
    for sort in dict.fromkeys(need.sort for need in needs):
        of_it = [need for need in needs if need.sort == sort]
        first = of_it[:_MOST]
        first[-1] = msgspec.structs.replace(first[-1], more=len(of_it) - len(first))
        shown += first
    return shown
