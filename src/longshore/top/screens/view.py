"""The base of every screen: periodic reading, a line for errors, a filter, retry and cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from longshore.errors import LongshoreError
from longshore.queue import Selection
from longshore.runs.control.bulk_action import COUNTED, BulkAction, size_of
from longshore.runs.control.job_filter import JobFilter
from longshore.system.printable import printable
from longshore.top.screens.dialogs import Question
from longshore.ui.words import counted

if TYPE_CHECKING:
    from longshore.top.screens.app import Top


class Target:
    """The jobs that the user selected: their selection on the queue, and their name."""

    def __init__(self, selection: Selection, name: str) -> None:
        self.selection = selection
        self.name = name


class View(Screen[None]):
    """A screen whose figures come from the queue."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "change('retry')", "retry"),
        Binding("c", "change('cancel')", "cancel"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("escape", "back", "back", key_display="esc"),
        Binding("question_mark", "app.help", "help", key_display="?"),
        Binding("q", "app.quit", "quit"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (28, "-tall")]  # noqa: RUF012  the base class has it so

    @property
    def top(self) -> Top:
        """The application."""
        return cast("Top", self.app)

    def body(self) -> Iterable[Widget]:
        """Yield the widgets above the filter and the footer."""
        raise NotImplementedError

    async def look(self) -> None:
        """Read the queue and show the result. Raises the queue's errors."""
        raise NotImplementedError

    def target(self) -> Target | None:
        """Return the jobs that retry and cancel would change; None if nothing is selected."""
        raise NotImplementedError

    def filtered(self, text: str) -> None:
        """Apply a filter: show only lines that contain this text."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield the body, and below it the filter, the error line and the keys."""
        yield from self.body()
        yield Input(placeholder="only lines with this text; enter keeps it, escape removes it", id="filter")
        yield Static(id="trouble")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Read the figures as soon as the screen is laid out."""
        self.call_after_refresh(self.top.hurry)

    def trouble(self, text: str) -> None:
        """Show an error, or hide the line if the text is empty."""
        line = self.query_one("#trouble", Static)
        line.update(Text(printable(text), no_wrap=False))
        line.display = bool(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable `back` on all screens but the first, and while a filter is open."""
        del parameters
        return action != "back" or self.top.deeper or bool(self.query_one("#filter", Input).display)

    def action_filter(self) -> None:
        """Open the filter."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()
        self.refresh_bindings()

    def action_back(self) -> None:
        """Remove the filter; without one, return to the previous screen."""
        field = self.query_one("#filter", Input)
        if field.display:
            field.value = ""
            field.display = False
            self.filtered("")
            self.refocus()
            self.refresh_bindings()
        elif self.top.deeper:
            self.top.pop_screen()
            self.top.hurry()

    def refocus(self) -> None:
        """Focus the body."""
        self.focus_next("Pane, VerticalScroll")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter while the user types."""
        self.filtered(event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter; hide the field if it is empty."""
        event.input.display = bool(event.value.strip())
        self.refocus()
        self.refresh_bindings()

    def action_change(self, verb: str) -> None:
        """Retry or cancel the selected jobs, after a question."""
        target = self.target()
        if target is None:
            self.notify(f"There is nothing to {verb} here: select a run, a kind of failure or a job.", markup=False)
            return
        self.top.in_background(self._change(BulkAction(verb), target))

    async def _change(self, change: BulkAction, target: Target) -> None:
        chosen = change.narrowed(target.selection)
        try:
            size = await size_of(self.top.queue, JobFilter(selection=chosen), most=COUNTED)
            if not size.jobs:
                states = " or ".join(sorted(chosen.states or ()))
                self.notify(printable(f"Nothing to {change}: {target.name}: nothing is {states}."), markup=False)
                return
            number = f"more than {counted(size.jobs, 'job')}" if size.more else counted(size.jobs, "job")
            answered: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
            question = f"{change.capitalize()} {number}?\n\n{printable(target.name)}"
            self.top.push_screen(Question(question), answered.set_result)
            if not await answered:
                return
            changed = await change.call(self.top.queue, chosen)
        except LongshoreError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
            return
        self.notify(f"{counted(changed, 'job')} {'is' if changed == 1 else 'are'} {change.made}.", markup=False)
        self.top.hurry()
