"""The jobs that the command line names: a file of URLs or of jobs, or URLs one by one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.runs.sources.sitemap import Sitemap
    from longshore.runs.sources.url_list import UrlList
    from longshore.runs.submit.input_files import InputFile
    from longshore.settings import Settings


def named_jobs(
    settings: Settings,
    urls: Sequence[str],
    sitemap: str | None,
    since: str | None,
    urls_file: str | None,
    jobs_file: str | None,
) -> InputFile | UrlList | Sitemap:
    """Return the URLs, the sitemap or the file that is named. Raise `UsageError` unless exactly one of them is."""
    if since is not None and sitemap is None:
        raise UsageError("--since belongs to --sitemap.")
    if not urls and sitemap is None:
        return input_file(urls_file, jobs_file)
    if urls_file is not None or jobs_file is not None or (urls and sitemap is not None):
        raise UsageError("Name URLs, --sitemap URL, --urls-file FILE or --jobs-file FILE: one of them.")
    if sitemap is not None:
        from longshore.runs.sources.sitemap import Sitemap

        return Sitemap(sitemap, since=since, settings=settings)
    from longshore.runs.sources.url_list import UrlList

    return UrlList(urls)


def input_file(urls_file: str | None, jobs_file: str | None) -> InputFile:
    """Return the file that one of the options names. Raise `UsageError` unless exactly one is given."""
    from longshore.runs.submit.input_files import InputFile, InputFormat

    if (urls_file is None) == (jobs_file is None):
        raise UsageError(
            "Say where the jobs are: a URL, --sitemap URL, --urls-file FILE or --jobs-file FILE, one of them. "
            "- is standard input."
        )
    path = urls_file if urls_file is not None else jobs_file or ""
    note_if_terminal(path)
    return InputFile(path, InputFormat.URLS if urls_file is not None else InputFormat.JOBS)


def note_if_terminal(path: str) -> None:
    """Say that jobs are read from the terminal, if that is what the path `-` means here."""
    if path == "-" and sys.stdin.isatty():
        from longshore.ui.output import note

        note("Reading from the terminal, one line a job; Ctrl-D ends.")
