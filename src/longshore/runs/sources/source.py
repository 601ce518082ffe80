"""The protocol of all sources of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, Protocol, runtime_checkable

from longshore.runs.submit.input_files import InputEntry


@runtime_checkable
class Source(Protocol):
    """A sequence of jobs to submit. Nothing is opened before `entries` is iterated."""

    @property
    def name(self) -> str:
        """Name of the source, for messages."""

    @property
    def rereadable(self) -> bool:
        """Whether it can be read once for checking before anything is submitted, and whether that is worth the time."""

    def entries(self) -> Iterator[InputEntry]:
        """Yield every job, in order. Raise `InputFileError` for the first item that is not a job."""

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for a source without jobs."""
