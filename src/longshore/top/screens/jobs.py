"""The second screen: a list of jobs."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from textual.widget import Widget
from textual.widgets import DataTable, Static

from longshore.job import State
from longshore.queue import Selection
from longshore.top.find_jobs import FoundJobs, JobRow, Wanted, find
from longshore.top.screens.job import JobView
from longshore.top.screens.pane import Pane, PaneColumn, PaneRow, cell
from longshore.top.screens.view import Target, View
from longshore.ui.words import one_line

_EVERY, _SHARE = 3.0, 20
"""The jobs are read at most every `_EVERY` seconds, and for at most one part in `_SHARE` of the time."""
_COLUMNS = (
    PaneColumn("id", 12, right=True, both_ends=True),
    PaneColumn("kind", 10),
    PaneColumn("state", 9),
    PaneColumn("tries", 5, right=True),
    PaneColumn("what", both_ends=True),
    PaneColumn("last failure", optional=True),
)
STYLES = {State.FAILED: "red", State.COMPLETED: "green", State.CLAIMED: "cyan", State.CANCELLED: "yellow"}


class JobsView(View):
    """The jobs of a run, a worker, a host or a kind of failure."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self._wanted = wanted
        self._text = ""
        self._again_at = float("-inf")

    def body(self) -> Iterable[Widget]:
        """Yield the title and the table."""
        yield Static(self._title("looking…"), id="title")
        yield Pane(_COLUMNS, id="jobs", empty="no such jobs")

    async def look(self) -> None:
        """Read the jobs again if that is due, and show them."""
        clock = self.top.clock
        began = clock.monotonic()
        if began < self._again_at:
            return
        text = self._text
        found = await find(self.top.queue, self._wanted, text)
        ended = clock.monotonic()
        self._again_at = ended + max(_EVERY, _SHARE * (ended - began)) if text == self._text else float("-inf")
        self.query_one("#title", Static).update(self._title(_summary(found)))
        self.query_one(Pane).show([_line(row) for row in found.rows])

    def filtered(self, text: str) -> None:
        """Search the queue for jobs that contain the text."""
        if text != self._text:
            self._text = text
            self._again_at = float("-inf")
            self.top.hurry()

    def target(self) -> Target | None:
        """Return the selected job."""
        chosen = self.query_one(Pane).chosen
        return None if chosen is None else Target(Selection(ids=frozenset({chosen})), f"job {chosen}")

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the details of the selected job."""
        if event.row_key.value:
            self.top.show(JobView(event.row_key.value))

    def _title(self, summary: str) -> Text:
        return Text.assemble((one_line(self._wanted.title, 50), "bold"), "  ", (summary, "dim"), no_wrap=True)


def _summary(found: FoundJobs) -> str:
    if not found.more:
        return f"{len(found.rows):,}"
    if found.rows:
        return f"the first {len(found.rows):,}; / narrows them"
    return f"none among the first {found.read:,}"


def _line(row: JobRow) -> PaneRow:
    return PaneRow(
        row.id,
        (
            cell(row.id),
            cell(row.kind),
            cell(row.state.value, STYLES.get(row.state, "")),
            cell(f"{row.attempts}/{row.max_attempts}"),
            cell(row.what),
            cell(row.failure, "dim" if row.state is State.COMPLETED else ""),
        ),
    )
