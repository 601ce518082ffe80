"""The third screen: all details of one job, and its log lines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from longshore.job import Job, State
from longshore.masking import mask_value
from longshore.observe.failure_fields import own_frames_first
from longshore.queue import Selection
from longshore.system.printable import printable
from longshore.top.find_jobs import Detail, detail_of, row_of
from longshore.top.log_lines import LogPart, log_parts
from longshore.top.screens.view import Target, View
from longshore.ui.words import duration, moment, one_line

_LOGS_SHARE, _LOGS_EVERY = 20, 3.0
_TRACEBACK = 15
_LONGEST = 4000
"""The most characters of a payload or a result that are shown."""


class JobView(View):
    """One job: its fields, attempts, and log lines."""

    def __init__(self, job_id: str) -> None:
        super().__init__()
        self._job_id = job_id
        self._detail: Detail | None = None
        self._logs: tuple[LogPart, ...] = ()
        self._logs_at = float("-inf")
        self._text = ""

    def body(self) -> Iterable[Widget]:
        """Yield the title, and a text that scrolls."""
        yield Static(Text(f"job {self._job_id}", style="bold"), id="title")
        with VerticalScroll(id="detail"):
            yield Static(id="text")

    async def look(self) -> None:
        """Read the job and its logs, and show them."""
        self._detail = await detail_of(self.top.queue, self._job_id)
        clock = self.top.clock
        began = clock.monotonic()
        if began >= self._logs_at:
            self._logs = await asyncio.to_thread(log_parts, self.top.folder, self._detail)
            ended = clock.monotonic()
            self._logs_at = ended + max(_LOGS_EVERY, _LOGS_SHARE * (ended - began))
        self._show()

    def filtered(self, text: str) -> None:
        """Show only lines that contain the text."""
        self._text = text.lower()
        self._show()

    def target(self) -> Target | None:
        """Return this job."""
        return Target(Selection(ids=frozenset({self._job_id})), f"job {self._job_id}")

    def _show(self) -> None:
        if self._detail is None:
            return
        row = row_of(self._detail.job)
        title = Text.assemble((f"job {row.id}", "bold"), "  ", (one_line(row.what, 200), "dim"), no_wrap=True)
        self.query_one("#title", Static).update(title)
        lines = list(_text(self._detail, self._logs).split("\n"))
        if self._text:
            lines = [line for line in lines if self._text in line.plain.lower()]
            lines = lines or [Text("No line contains this text.", style="dim")]
        self.query_one("#text", Static).update(Group(*map(_hanging, lines)))


def _hanging(line: Text) -> Padding:
    """Return a line whose wrapped part has the same indent as its beginning."""
    indent = len(line.plain) - len(line.plain.lstrip(" "))
    return Padding(line[indent:], (0, 0, 0, indent))


def _text(detail: Detail, logs: Iterable[LogPart]) -> Text:
    job = detail.job
    text = Text()
    for name, value in _facts(job).items():
        if value:
            style = _STATES.get(job.state, "") if name == "state" else ""
            text.append(f"{name:<11} ", style="dim").append(f"{printable(value)}\n", style=style)
    _section(text, "payload", _json(job.payload))
    if job.state is State.COMPLETED:
        _section(text, "result", _json(job.result))
    if job.failure is not None and job.state is not State.COMPLETED:
        _section(text, f"last failure: {job.failure.error_type} {job.failure.exception}", job.failure.message, "red")
    if detail.history:
        _section(text, "attempts that failed", "\n".join(_attempts(detail)))
    if job.failure is not None and job.failure.traceback and job.state is not State.COMPLETED:
        lines = own_frames_first(job.failure.traceback).splitlines()
        _section(text, "traceback, its last lines", "\n".join(lines[-_TRACEBACK:]))
    logs = list(logs)
    for part in logs:
        _section(text, part.file, "\n".join(part.lines))
    if not logs:
        _section(text, "log lines", "none in the logs of this folder", "dim")
    return text


_STATES = {State.FAILED: "red", State.COMPLETED: "green", State.CLAIMED: "cyan", State.CANCELLED: "yellow"}


def _facts(job: Job) -> dict[str, str]:
    return {
        "state": job.state.value,
        "run": job.run,
        "kind": job.kind,
        "key": job.key,
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "priority": str(job.priority) if job.priority else "",
        "partition": job.partition,
        "host": job.host,
        "parent": f"{job.parent.kind} {job.parent.key}" if job.parent else "",
        "not before": moment(job.not_before),
        "submitted": moment(job.submitted_at),
        "settled": moment(job.settled_at),
        "took": "" if job.seconds is None else duration(job.seconds),
        "worker": job.worker or "",
    }


def _attempts(detail: Detail) -> Iterable[str]:
    for number, attempt in enumerate(detail.history, 1):
        took = "" if attempt.seconds is None else f" after {duration(attempt.seconds)}"
        yield f"{number}. {moment(attempt.ended_at)} on {attempt.worker}{took}"
        yield f"   {one_line(f'{attempt.failure.error_type}: {attempt.failure.message}', 300)}"


def _section(text: Text, title: str, body: str, style: str = "") -> None:
    text.append(f"\n{printable(title)}\n", style="bold")
    for line in body.splitlines():
        text.append(f"  {printable(line)}\n", style=style)


def _json(value: object) -> str:
    shown = msgspec.json.format(msgspec.json.encode(mask_value(value))).decode()
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…\n(`longshore show --json` shows all of it)"
