"""What everything that jobs come from has in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, Protocol, runtime_checkable

from longshore.runs.submit.input_files import InputEntry


@runtime_checkable
class Source(Protocol):
    """Jobs to submit, one after the other. Nothing is opened before `entries` is iterated."""

    @property
    def name(self) -> str:
        """What to call it in a message."""

    @property
    def rereadable(self) -> bool:
        """Whether reading it through before anything is submitted is possible, and worth it."""

    def entries(self) -> Iterator[InputEntry]:
        """Every job, in order. `InputFileError` names the first thing that is not one."""

    def refuse_empty(self) -> NoReturn:
        """`InputFileError`: there is no job in it."""
