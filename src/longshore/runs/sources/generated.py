"""Jobs from Python functions and collections."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from longshore.errors import HandlerFileError, InputFileError, LongshoreError
from longshore.job import DEFAULT_MAX_ATTEMPTS, NewJob
from longshore.runs.submit.input_files import InputEntry, check_url
from longshore.url import clean_url

Item = str | Mapping[str, object] | NewJob | InputEntry
"""A URL, a payload, or a whole job."""


@dataclass(frozen=True)
class Generated:
    """The items of a function or collection: URLs, payloads, or jobs made by `new_job`.

    The run of a job is ignored. Submitting is safe to repeat only if the function yields the same items again.
    """

    items: Callable[[], Iterable[Item]] | Iterable[Item]
    called: str = ""
    """Name of the source, for messages. Default: the function's name."""

    @property
    def name(self) -> str:
        """Name of the source, for messages."""
        return self.called or getattr(self.items, "__qualname__", "the list of jobs")

    @property
    def rereadable(self) -> bool:
        """True for lists and tuples only: a function may be slow and may have side effects."""
        return isinstance(self.items, list | tuple)

    @property
    def fingerprint(self) -> str | None:
        """The same for the same items; None if they can be read only once."""
        if not self.rereadable:
            return None
        digest = hashlib.sha256()
        for entry in self.entries():
            digest.update(msgspec.json.encode(entry) + b"\n")
        return digest.hexdigest()

    def entries(self) -> Iterator[InputEntry]:
        """Yield every item. Raise `InputFileError` for one that is not a job, and for any exception of the function."""
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
        """Raise the `InputFileError` for a source without items."""
        raise InputFileError(f"There are no jobs in {self.name}. It must yield URLs, payloads or jobs.")


def _entry(item: object) -> InputEntry:
    match item:
        case InputEntry():
            return item
        case str():
            return InputEntry(payload={"url": check_url(clean_url(item))})
        case NewJob():
            return InputEntry(
                payload=item.payload,
                key=None if item.default_key else item.key,
                # A default value of `new_job` does not override the plan.
                priority=item.priority or None,
                partition=item.partition or None,
                not_before=item.not_before,
                kind=item.kind,
                host=item.host,
                max_attempts=None if item.max_attempts == DEFAULT_MAX_ATTEMPTS else item.max_attempts,
            )
        case Mapping():
            return InputEntry(payload=dict(item))
    raise ValueError(f"a {type(item).__name__} is not a job. Yield a URL, a payload (a dict), or new_job(…).")


@dataclass(frozen=True)
class PythonSource:
    """A function of a Python file, written as `targets.py:cities`. The file is imported when the jobs are read."""

    place: str

    @property
    def name(self) -> str:
        """Name of the source, for messages."""
        return self.place

    @property
    def rereadable(self) -> bool:
        """False, as for every function."""
        return False

    def entries(self) -> Iterator[InputEntry]:
        """Yield the function's items. Raise `InputFileError` if there is no such function."""
        return Generated(self._function(), self.place).entries()

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for a function that yields nothing."""
        Generated((), self.place).refuse_empty()

    def _function(self) -> Callable[[], Iterable[Item]] | Iterable[Item]:
        # Imported here because most sources do not need it, and this import is slow.
        from longshore.handlers.load import import_file

        file, _, function = self.place.rpartition(":")
        try:
            found = getattr(import_file(Path(file)), function, None)
        except HandlerFileError as error:
            raise InputFileError(str(error)) from error
        if found is None:
            raise InputFileError(f"There is no '{function}' in {file}. Define it: a function that yields jobs.")
        return found  # type: ignore[no-any-return]  # each item is checked when it is yielded
