"""The dialogs: a question, and the help."""

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
    """A question that is answered with y or n; every other key means no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,enter,q", "answer(False)", "no"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Yield the question and the possible answers."""
        with Vertical(id="dialog"):
            yield Static(Text(self._text), id="question")
            yield Static(Text.assemble(("y", "bold cyan"), " yes    ", ("n", "bold cyan"), " no"), id="answers")

    def action_answer(self, answer: bool) -> None:
        """Close the dialog with this answer."""
        self.dismiss(answer)


_KEYS = (
    ("tab, shift+tab", "the next table, the previous table"),
    ("↑ ↓", "another line"),
    ("enter", "open: a run, the jobs of a line, one job"),
    ("escape", "back"),
    ("/", "show only lines that contain a text; an empty text shows all"),
    ("j", "the jobs themselves"),
    ("r", "retry: the failed jobs of the line are pending again, with all attempts"),
    ("c", "cancel: the unfinished jobs of the line are cancelled"),
    ("q, Ctrl-C", "quit; the workers go on"),
)
_WORDS = (
    ("seen", "when a worker was last present"),
    ("waiting", "pending jobs of a host; ~ if only some were read"),
    ("rate", "of a host: requests per second, learned from its responses"),
    ("again", "jobs that failed like this and wait for a retry"),
)


class Help(ModalScreen[None]):
    """The help: the keys, and the words on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "back")]

    def compose(self) -> ComposeResult:
        """Yield the keys, and the words on the screen that need an explanation."""
        with VerticalScroll(id="dialog", classes="wide"):
            for title, pairs in (("Keys", _KEYS), ("Words", _WORDS)):
                yield Static(Text(title, style="bold"))
                yield Static(_listed(pairs))
            yield Static(Text("escape closes this.", style="dim"))


def _listed(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and meanings."""
    listed = Table.grid(padding=(0, 2, 0, 0))
    listed.add_column(width=16, style="cyan")
    listed.add_column()
    for name, meaning in pairs:
        listed.add_row(f"  {name}", meaning)
    return listed
