"""What is asked and explained above the screen."""

from __future__ import annotations

from typing import ClassVar

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
    ("seen", "since when a worker is not on the roll and holds nothing"),
    ("waiting", "pending jobs of a host; ~ where only some were read"),
    ("rate", "of a host: requests a second, learned from its answers"),
    ("again", "jobs that failed so and wait for another attempt"),
)


class Help(ModalScreen[None]):
    """Which keys there are."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "back")]

    def compose(self) -> ComposeResult:
        """The keys, and the words on the screen that are not plain."""
        text = Text()
        for title, pairs in (("Keys", _KEYS), ("Words", _WORDS)):
            text.append(f"{title}\n", style="bold")
            for name, meaning in pairs:
                text.append(f"  {name:<16}", style="cyan").append(f"{meaning}\n")
        text.append("escape closes this.", style="dim")
        with VerticalScroll(id="dialog", classes="wide"):
            yield Static(text)
