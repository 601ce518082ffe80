"""Remove what workers of this machine keep of jobs besides records: pages, failure bundles and logs."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

import msgspec

from longshore.extensions.record_store import JobInQueue
from longshore.queue import Queue, Selection, each_job
from longshore.runs.submit.submission import is_run_id
from longshore.scrape.capture.failure_bundles import bundles_in, is_bundle_of
from longshore.scrape.capture.page_store import PageStore
from longshore.system.private_files import is_own_directory


class RemovedTraces(msgspec.Struct, frozen=True):
    """How many things were, or would be, removed with the jobs, and how many bytes they have."""

    pages: int = 0
    """Page lists of jobs; a page that other jobs share stays."""
    bundles: int = 0
    logs: int = 0
    """Folders of the logs of runs that are gone."""
    size: int = 0


def remove_traces(
    data_folder: Path, logs: Path, jobs: Collection[JobInQueue], gone: Collection[str], *, dry: bool = False
) -> RemovedTraces:
    """Remove the pages and failure bundles of these jobs, and the logs of the runs that are `gone`; if `dry`, count.

    `logs` is the folder with a folder of logs for each run.
    """
    wanted = frozenset(jobs)
    pages, size = PageStore(data_folder / "pages").remove(wanted, dry=dry)
    bundles = [path for path in bundles_in(data_folder / "bundles") if is_bundle_of(path, wanted)]
    # Others may have submitted to a run that is called like another folder, or `..`.
    folders = [logs / run for run in gone if is_run_id(run) and is_own_directory(logs / run)]
    for path in (*bundles, *folders):
        size += folder_size(path)[0]
        if not dry:
            shutil.rmtree(path, ignore_errors=True)
    return RemovedTraces(pages, len(bundles), len(folders), size)


async def named_jobs(queue: Queue, selection: Selection) -> list[JobInQueue]:
    """Return the names of the jobs of a selection."""
    return [(job.run, job.kind, job.key, job.queue, job.id) async for job in each_job(queue, selection)]


def folder_size(path: Path) -> tuple[int, int]:
    """Return the bytes and the number of the files in a folder; of a file, its own. Nothing is there: 0, 0."""
    if path.is_file():
        return path.stat().st_size, 1
    size = number = 0
    for each in path.rglob("*"):
        try:
            if each.is_file() and not each.is_symlink():
                size += each.stat().st_size
                number += 1
        except OSError:
            continue  # removed meanwhile
    return size, number
