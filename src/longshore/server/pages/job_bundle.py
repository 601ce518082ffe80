"""The failure bundle of a job: what the handler saw, a screenshot, and the command that runs it again.

Its pages are hostile: they came from the web and may be made to attack their reader. A page is sent as a download, or
into a frame without scripts, forms, network and origin.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from longshore.errors import Failure, NotFoundError
from longshore.extensions.traces import BundleEntry
from longshore.job import Job
from longshore.scrape.capture.failure_bundles import FailureBundle
from longshore.server.traces.trace_store import TraceStore
from longshore.stored import UNFIT
from longshore.top.failures import kind_of

SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_TEXT = "bundle.json"


class BundledPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a bundle."""

    name: str
    url: str = ""
    status: int | None = None


class JobBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle, as the page of a job shows it."""

    entry: BundleEntry
    of_this_job: bool
    """False if it is the example of another job that failed in the same way."""
    pages: tuple[BundledPage, ...]
    replay: str
    """The command that runs the handler again on it."""


async def bundle_entry_of(traces: TraceStore, job: Job) -> BundleEntry | None:
    """Return the bundle of a job, or that of a job of its run which failed in the same way."""
    if job.failure is None:
        return None
    ours = [each for each in await traces.bundles() if (each.run, each.kind) == (job.run, job.kind)]
    own = [each for each in ours if each.job == job.id]
    return next(reversed(own or [each for each in ours if _alike(each, job.failure)]), None)


async def bundle_of(traces: TraceStore, job: Job) -> JobBundle | None:
    """Return the bundle to show with a job; None if there is none."""
    entry = await bundle_entry_of(traces, job)
    if entry is None:
        return None
    try:
        bundle = msgspec.json.decode(await traces.bundle_file(entry.name, _TEXT), type=FailureBundle)
    except (NotFoundError, *UNFIT):
        return None  # it was just removed
    pages = [
        BundledPage(name=each.file, url=each.final_url or each.url, status=each.status)
        for each in bundle.exchanges
        if each.file in entry.files
    ]
    path, file = traces.bundle_folder / entry.name, Path(bundle.signature.file).name or "HANDLERS.py"
    return JobBundle(
        entry=entry,
        of_this_job=entry.job == job.id,
        pages=tuple(pages),
        replay=f"longshore replay {shlex.quote(str(path))} {shlex.quote(file)}",
    )


def _alike(entry: BundleEntry, failure: Failure) -> bool:
    other = msgspec.structs.replace(failure, message=entry.message)
    return entry.error in (failure.exception, failure.error_type) and kind_of(other).name == kind_of(failure).name
