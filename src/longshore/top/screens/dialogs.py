"""What is asked and explained above the screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static


class Question(ModalScreen[bool]):
    """A question that is answered with y or n; everything but y is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,enter,q", "answer(False)", "no"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The question, and how to answer."""
        with Vertical(id="dialog"):
            yield Static(Text(self._text), id="question")
            yield Static(Text.assemble(("y", "bold cyan"), " yes    ", ("n", "bold cyan"), " no"), id="answers")

    def action_answer(self, answer: bool) -> None:
        """That was it."""
        self.dismiss(answer)


_KEYS = (
    ("tab, shift+tab", "the next table, the one before"),
    ("↑ ↓", "another line"),
    ("enter", "look closer: a run, the jobs of a line, one job"),
    ("escape", "back"),
    ("/", "only lines with a text in them; empty shows all again"),
    ("j", "the jobs themselves"),
    ("r", "retry: the failed jobs of the line, with all attempts again"),
    ("c", "cancel: unfinished jobs of the line are given up"),
    ("q, Ctrl-C", "leave; the work goes on"),
)
_WORDS = (
    ("seen", "when a worker was last there"),
    ("waiting", "pending jobs of a host; ~ where only some were read"),
    ("rate", "of a host: requests a second, learned from its answers"),
    ("again", "jobs that failed so and wait for another attempt"),
)


class Help(ModalScreen[None]):
    """Which keys there are."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "back")]

    def compose(self) -> ComposeResult:
        """The keys, and the words on the screen that are not plain."""
        with VerticalScroll(id="dialog", classes="wide"):
            for title, pairs in (("Keys", _KEYS), ("Words", _WORDS)):
                yield Static(Text(title, style="bold"))
                yield Static(_listed(pairs))
            yield Static(Text("escape closes this.", style="dim"))


def _listed(pairs: Iterable[tuple[str, str]]) -> Table:
    """Names, and beside them what they mean, which is wrapped under itself."""
    listed = Table.grid(padding=(0, 2, 0, 0))
    listed.add_column(width=16, style="cyan")
    listed.add_column()
    for name, meaning in pairs:
        listed.add_row(f"  {name}", meaning)
    return listed
