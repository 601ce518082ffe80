"""The first screen, of a whole queue or of one run: throughput, runs or kinds, workers, failures, hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Grid
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable

from longshore.job import Job, State
from longshore.queue import Count, Selection
from longshore.top.failures import FailureKind, kind_of
from longshore.top.figures import FiguresReader, LaneFigures, QueueFigures
from longshore.top.find_jobs import Wanted
from longshore.top.hosts import HostRow
from longshore.top.screens.head import HeaderBar
from longshore.top.screens.jobs import JobsView
from longshore.top.screens.pane import Pane, PaneColumn, PaneRow, cell
from longshore.top.screens.plot import Plot
from longshore.top.screens.view import Target, View
from longshore.top.workers import WorkerRow
from longshore.ui.words import duration, rate

_COUNT = len("9,999,999")
_RATE = len("59.9/min")
_FIGURES = (
    PaneColumn("done", 5, right=True),
    PaneColumn("to do", _COUNT, right=True),
    PaneColumn("failed", _COUNT, right=True),
    PaneColumn("rate", _RATE, right=True),
)
_RUNS = (PaneColumn("run", both_ends=True), *_FIGURES)
_KINDS = (PaneColumn("kind"), PaneColumn("partition", optional=True), *_FIGURES)
_WORKERS = (
    PaneColumn("worker", both_ends=True),
    PaneColumn("jobs", 7, right=True),
    PaneColumn("doing", both_ends=True),
    PaneColumn("seen", len("59 min 59 s"), right=True),
)
_FAILURES = (
    PaneColumn("failed", _COUNT, right=True),
    PaneColumn("again", _COUNT, right=True, optional=True),
    PaneColumn("of"),
)
_HOSTS = (
    PaneColumn("host", both_ends=True),
    PaneColumn("waiting", _COUNT, right=True),
    PaneColumn("rate", _RATE, right=True, optional=True),
    PaneColumn("state", optional=True),
)


class Dashboard(View, inherit_bindings=False):
    """The dashboard of a queue, or of one run."""

    # All bindings are listed again, so that `j` comes first.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("j", "jobs", "jobs"), *View.BINDINGS, *Screen.BINDINGS]

    def __init__(self, reader: FiguresReader, run: str | None, where: str, flag: str = "") -> None:
        super().__init__()
        self._reader = reader
        self._run = run
        self._where = where
        self._flag = flag
        self._board: QueueFigures | None = None

    def body(self) -> Iterable[Widget]:
        """Yield the title, the plot and four tables."""
        yield HeaderBar(self._where, self._run, self._flag)
        yield Plot(id="plot")
        with Grid(id="tables"):
            yield Pane(_KINDS if self._run is not None else _RUNS, id="lanes", empty="no jobs yet")
            yield Pane(_WORKERS, id="workers", empty="no worker is present")
            yield Pane(_FAILURES, id="failures", empty="nothing failed")
            yield Pane(_HOSTS, id="hosts", empty="no job names a host")

    async def look(self) -> None:
        """Read the figures and show them."""
        self._board = board = await self._reader.look()
        self.query_one(HeaderBar).show(board)
        plot = self.query_one(Plot)
        plot.border_title = "throughput"
        plot.show(board.spans)
        lanes, workers, failures, hosts = (self._pane(name) for name in ("lanes", "workers", "failures", "hosts"))
        lanes.show(
            [_lane(lane, self._run is not None) for lane in board.lanes],
            f"runs {len(board.lanes):,}" if self._run is None else "kinds and partitions",
        )
        present = [row for row in board.workers if not row.unseen]
        workers.show([_worker(row, known=board.workers_known) for row in board.workers], f"workers {len(present):,}")
        partial = "" if board.failures_known else ", partly counted"
        failures.show([_failure(kind) for kind in board.failures], f"failures by kind{partial}")
        closed = sum(row.closed_for > 0 for row in board.hosts)
        hosts.show(
            [_host(row, known=board.hosts_known) for row in board.hosts],
            f"hosts {len(board.hosts):,}" + (f", {closed:,} closed" if closed else ""),
        )

    def filtered(self, text: str) -> None:
        """Apply the filter to all tables."""
        for pane in self.query(Pane):
            pane.filter(text)

    def target(self) -> Target | None:
        """Return the jobs of the selected line; None if the queue cannot select them."""
        focused, board = self.focused, self._board
        if not isinstance(focused, Pane) or focused.chosen is None or board is None:
            return None
        if focused.id == "lanes":
            lane = next((lane for lane in board.lanes if _lane_key(lane) == focused.chosen), None)
            return None if lane is None else Target(self._lane_selection(lane.count), self._lane_name(lane.count))
        if focused.id == "failures":
            kind = next((kind for kind in board.failures if _failure_key(kind) == focused.chosen), None)
            if kind is not None:
                return Target(Selection(run=self._run, error=kind.error), f"{_type(kind)}: {kind.pattern}")
        return None

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the details of the selected line."""
        board, key = self._board, event.row_key.value
        if board is None or key is None:
            return
        if event.data_table.id == "lanes" and self._run is None:
            self.top.show_run(next(lane.count.run for lane in board.lanes if _lane_key(lane) == key))
            return
        wanted = self._wanted(str(event.data_table.id), key, board)
        if wanted is not None:
            self.top.show(JobsView(wanted))

    def action_jobs(self) -> None:
        """Show the jobs of this run, or of the queue."""
        name = "all jobs" if self._run is None else f"jobs of run {self._run}"
        self.top.show(JobsView(Wanted(title=name, selection=Selection(run=self._run))))

    def refocus(self) -> None:
        """Focus the first table that is not empty."""
        panes = list(self.query(Pane))
        next((pane for pane in panes if pane.chosen is not None), panes[0]).focus()

    def _wanted(self, pane: str, key: str, board: QueueFigures) -> Wanted | None:
        if pane == "lanes":
            for lane in board.lanes:
                if _lane_key(lane) == key:
                    return Wanted(
                        title=f"jobs of {self._lane_name(lane.count)}", selection=self._lane_selection(lane.count)
                    )
        if pane == "workers":
            held = Selection(run=self._run, states=frozenset({State.CLAIMED}))
            return Wanted(title=f"jobs that {key} holds", selection=held, accepts=lambda job: job.worker == key)
        if pane == "hosts":
            unfinished = Selection(run=self._run, states=frozenset({State.PENDING, State.CLAIMED}))
            return Wanted(title=f"unfinished jobs for {key}", selection=unfinished, accepts=lambda job: job.host == key)
        for kind in board.failures:
            if _failure_key(kind) == key:
                unsettled = frozenset({State.FAILED, State.PENDING, State.CLAIMED})
                chosen = Selection(run=self._run, error=kind.error, states=unsettled)
                return Wanted(title=f"{_type(kind)}: {kind.pattern}", selection=chosen, accepts=_failed_of(kind))
        return None

    def _lane_selection(self, count: Count) -> Selection:
        if self._run is None:
            return Selection(run=count.run)
        return Selection(run=count.run, kinds=frozenset({count.kind}), partitions=frozenset({count.partition}))

    def _lane_name(self, count: Count) -> str:
        if self._run is None:
            return f"run {_run_name(count.run)}"
        return f"kind {count.kind}" + (f" in {count.partition}" if count.partition else "")

    def _pane(self, name: str) -> Pane:
        return self.query_one(f"#{name}", Pane)


def _failed_of(kind: FailureKind) -> Callable[[Job], bool]:
    def accepts(job: Job) -> bool:
        return job.failure is not None and (not kind.pattern or kind_of(job.failure).name == kind.name)

    return accepts


def _run_name(run: str) -> str:
    return run or "(no run)"


def _lane_key(lane: LaneFigures) -> str:
    return "\0".join((lane.count.run, lane.count.kind, lane.count.partition))


def _lane(lane: LaneFigures, of_run: bool) -> PaneRow:
    count = lane.count
    done = 100 * (count.total - count.remaining) // count.total if count.total else 100
    names = [cell(count.kind), cell(count.partition, "dim")] if of_run else [cell(_run_name(count.run))]
    finished = "" if count.remaining else "dim"
    return PaneRow(
        _lane_key(lane),
        (
            *names,
            cell(f"{done} %", "green" if not count.remaining else ""),
            cell(f"{count.remaining:,}", finished),
            cell(f"{count.failed:,}", "red" if count.failed else "dim"),
            cell(rate(lane.per_second) if lane.per_second and count.remaining else "", "cyan"),
        ),
    )


def _worker(row: WorkerRow, *, known: bool) -> PaneRow:
    if row.unseen:
        ago = cell(f"{duration(row.unseen)}", "yellow")
        return PaneRow(row.label, (cell(row.label, "dim"), cell(""), cell("gone", "yellow"), ago))
    if row.busy is not None:
        jobs = f"{row.busy:,}" if row.slots is None else f"{row.busy:,}/{row.slots:,}"
    else:
        jobs = f"{row.held:,}" if known or row.held else ""
    words = [row.job.removeprefix("https://").removeprefix("http://")] if row.job else []
    if row.fleet:
        words.append(f"fleet {row.fleet}" + ("" if row.number is None else f" #{row.number}"))
    words += [" ".join(row.partitions)] if row.partitions else []
    words += row.details
    # A worker that holds jobs shows only its oldest one; an idle worker shows its other fields.
    doing = words[0] if row.job else " · ".join(["idle", *words])
    return PaneRow(
        row.label, (cell(row.label), cell(jobs, "cyan"), cell(doing, "" if row.job else "dim"), cell("now", "dim"))
    )


def _failure_key(kind: FailureKind) -> str:
    return "\0".join(kind.name)


def _type(kind: FailureKind) -> str:
    return kind.exception or kind.error_type


def _failure(kind: FailureKind) -> PaneRow:
    of = Text.assemble(cell(_type(kind), "bold"), "  ", cell(kind.pattern), no_wrap=True)
    return PaneRow(
        _failure_key(kind),
        (
            cell(f"{kind.failed:,}", "red" if kind.failed else "dim"),
            cell(f"{kind.retrying:,}" if kind.retrying else "", "yellow"),
            of,
        ),
    )


def _host(row: HostRow, *, known: bool) -> PaneRow:
    asked = "" if not row.rate or row.closed_for else f"{row.rate:.2g}/s" if row.rate < 10 else f"{row.rate:,.0f}/s"
    if row.closed_for:
        state = cell(f"closed {_roughly(row.closed_for)}: {row.why}", "red")
    elif row.crawl_delay:
        state = cell(f"{row.crawl_delay:g} s apart", "dim")
    else:
        state = cell(f"{row.refusals:,} refused" if row.refusals else "", "yellow")
    waiting = f"{'' if known else '~'}{row.waiting:,}"
    return PaneRow(row.host, (cell(row.host), cell(waiting), cell(asked, "cyan"), state))


def _roughly(seconds: float) -> str:
    """Return a duration in one unit, rounded up."""
    if seconds < 60:
        return f"{ceil(seconds)} s"
    return f"{ceil(seconds / 60)} min" if seconds < 6000 else f"{ceil(seconds / 3600)} h"
