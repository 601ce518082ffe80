"""The input file that `--urls-file` and `--jobs-file` name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.runs.submit.input_files import InputFile


def input_file(urls_file: str | None, jobs_file: str | None) -> InputFile:
    """Return the file that one of the options names. Raise `UsageError` unless exactly one is given."""
    from longshore.runs.submit.input_files import InputFile, InputFormat

    if (urls_file is None) == (jobs_file is None):
        raise UsageError(
            "Say where the jobs are: --urls-file FILE or --jobs-file FILE, one of them. - is standard input."
        )
    path = urls_file if urls_file is not None else jobs_file or ""
    note_if_terminal(path)
    return InputFile(path, InputFormat.URLS if urls_file is not None else InputFormat.JOBS)


def note_if_terminal(path: str) -> None:
    """Say that jobs are read from the terminal, if that is what the path `-` means here."""
    if path == "-" and sys.stdin.isatty():
        from longshore.ui.output import note

        note("Reading from the terminal, one line a job; Ctrl-D ends.")
