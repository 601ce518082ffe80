"""What every screen has: figures that are looked at again, a line for troubles, a filter, retry and cancel."""

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
from longshore.top.bulk_change import BulkChange, size_of
from longshore.top.screens.dialogs import Question
from longshore.ui.words import counted, printable

if TYPE_CHECKING:
    from longshore.top.screens.app import Top


class Target:
    """Jobs that a person means: how the queue selects them, and what they are called."""

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
        """The program."""
        return cast("Top", self.app)

    def body(self) -> Iterable[Widget]:
        """What is between the title and the last lines."""
        raise NotImplementedError

    async def look(self) -> None:
        """Ask the queue, and show what it says. Raises what the queue raises."""
        raise NotImplementedError

    def target(self) -> Target | None:
        """The jobs that retry and cancel would change; None where nothing is chosen."""
        raise NotImplementedError

    def filtered(self, text: str) -> None:
        """Only what has this text in it is wanted now."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The body, and below it the filter, troubles and keys."""
        yield from self.body()
        yield Input(placeholder="only lines with this text; enter keeps it, escape drops it", id="filter")
        yield Static(id="trouble")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Ask for figures as soon as there is a place for them."""
        self.call_after_refresh(self.top.hurry)

    def trouble(self, text: str) -> None:
        """Say what is wrong, or with an empty text that nothing is."""
        line = self.query_one("#trouble", Static)
        line.update(Text(printable(text), no_wrap=False))
        line.display = bool(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is a way back from all but the first screen, and from a filter."""
        del parameters
        return action != "back" or self.top.deeper or bool(self.query_one("#filter", Input).display)

    def action_filter(self) -> None:
        """Begin to write a filter."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()
        self.refresh_bindings()

    def action_back(self) -> None:
        """Drop the filter; without one, leave this screen for the one before."""
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
        """Give the keys back to the body."""
        self.focus_next("Pane, VerticalScroll")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow while it is written."""
        self.filtered(event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The filter stands; an empty one is none."""
        event.input.display = bool(event.value.strip())
        self.refocus()
        self.refresh_bindings()

    def action_change(self, verb: str) -> None:
        """Retry or cancel what is chosen, after a question."""
        target = self.target()
        if target is None:
            self.notify(f"There is nothing to {verb} here: choose a run, a kind of failure or a job.", markup=False)
            return
        self.top.in_background(self._change(BulkChange(verb), target))

    async def _change(self, change: BulkChange, target: Target) -> None:
        chosen = change.narrowed(target.selection)
        try:
            size = await size_of(self.top.queue, chosen)
            if not size.jobs:
                states = " or ".join(sorted(change.states if chosen.ids is None else change.possible))
                self.notify(printable(f"Nothing to {change}: {target.name}: nothing is {states}."), markup=False)
                return
            number = f"more than {counted(size.jobs, 'job')}" if size.more else counted(size.jobs, "job")
            answered: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
            question = f"{change.capitalize()} {number}?\n\n{printable(target.name)}"
            self.top.push_screen(Question(question), answered.set_result)
            if not await answered:
                return
            changed = await change.carry_out(self.top.queue, chosen)
        except LongshoreError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
            return
        what = "pending again" if change is BulkChange.RETRY else "cancelled"
        self.notify(f"{counted(changed, 'job')} {'is' if changed == 1 else 'are'} {what}.", markup=False)
        self.top.hurry()
