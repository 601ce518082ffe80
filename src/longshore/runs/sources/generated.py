"""Jobs that Python makes up as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from longshore.errors import HandlerFileError, InputFileError, LongshoreError
from longshore.job import DEFAULT_MAX_ATTEMPTS, NewJob
from longshore.runs.submit.input_files import InputEntry, check_url

Item = str | Mapping[str, object] | NewJob | InputEntry
"""A URL, a payload, or a whole job."""


@dataclass(frozen=True)
class Generated:
    """What a function yields, or a collection holds: URLs, payloads, or jobs made by `new_job`.

    Of a job everything counts but its run. For submitting to be safe to repeat, the function must yield the same again.
    """

    items: Callable[[], Iterable[Item]] | Iterable[Item]
    called: str = ""
    """What to call it in a message; left out, the function's name."""

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.called or getattr(self.items, "__qualname__", "the list of jobs")

    @property
    def rereadable(self) -> bool:
        """Only a list is: a function may take its time, and may do more than yield."""
        return isinstance(self.items, list | tuple)

    def entries(self) -> Iterator[InputEntry]:
        """Every item. `InputFileError` for one that is no job, and for whatever the function raises."""
        number = 0
        try:
            for item in self.items() if callable(self.items) else self.items:
                number += 1
                yield _entry(item)
        except LongshoreError:
            raise
        except ValueError as error:
            raise InputFileError(f"{self.name}, item {number}: {error}") from error
        except (Exception, SystemExit) as error:
            raise InputFileError(
                f"{self.name} failed after {number:,} jobs: {type(error).__name__}: {error}. Correct the function."
            ) from error

    def refuse_empty(self) -> NoReturn:
        """`InputFileError`: there is nothing in it."""
        raise InputFileError(f"There are no jobs in {self.name}. It must yield URLs, payloads or jobs.")


def _entry(item: object) -> InputEntry:
    match item:
        case InputEntry():
            return item
        case str():
            return InputEntry(payload={"url": check_url(item.strip())})
        case NewJob():
            return InputEntry(
                payload=item.payload,
                key=item.key,
                # What a job has by default it does not insist on.
                priority=item.priority or None,
                partition=item.partition or None,
                not_before=item.not_before,
                kind=item.kind,
                host=item.host,
                max_attempts=None if item.max_attempts == DEFAULT_MAX_ATTEMPTS else item.max_attempts,
            )
        case Mapping():
            return InputEntry(payload=dict(item))
    raise ValueError(f"a {type(item).__name__} is no job. Yield a URL, a payload (a dict), or new_job(…).")


@dataclass(frozen=True)
class Named:
    """A function of a Python file, named as `targets.py:cities`; the file is run when the jobs are asked for."""

    place: str

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.place

    @property
    def rereadable(self) -> bool:
        """No, as for every function."""
        return False

    def entries(self) -> Iterator[InputEntry]:
        """What the function yields. `InputFileError` where there is no such function."""
        return Generated(self._function(), self.place).entries()

    def refuse_empty(self) -> NoReturn:
        """`InputFileError`: it yields nothing."""
        Generated((), self.place).refuse_empty()

    def _function(self) -> Callable[[], Iterable[Item]] | Iterable[Item]:
        # Only here: most sources need no handlers, and importing them takes a while.
        from longshore.handlers.load import import_file

        file, _, function = self.place.rpartition(":")
        try:
            found = getattr(import_file(Path(file)), function, None)
        except HandlerFileError as error:
            raise InputFileError(str(error)) from error
        if found is None:
            raise InputFileError(f"There is no '{function}' in {file}. Define it: a function that yields jobs.")
        return found  # type: ignore[no-any-return]  # what it yields is looked at one by one
