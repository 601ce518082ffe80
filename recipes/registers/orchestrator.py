"""`ScraperOrchestrator`: starts a scraper as its mode says, and counts the jobs of its runs."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

import longshore
from longshore.runs.scrapers.start import Finished, Queued
from longshore.ui.program import python
from registers.scrapers import find

BATCH = 50


class ScraperOrchestrator:
    """Starts scrapers on the queue of the environment (`LONGSHORE_QUEUE`), or on the one that is named."""

    def __init__(self, queue: str | None = None) -> None:
        self._queue = queue

    def start_scraper(
        self,
        name: str,
        urls: str | Path | Iterable[str | Mapping[str, object]] | None = None,
        *,
        run_id: str | None = None,
        resume: bool = False,
    ) -> dict[str, Any]:
        """Start a scraper, and return what `python -m registers.start` prints.

        A distributed one is queued: `status` (queued), `run_id`, `enqueued`, `duplicates` and `worker_command`. A
        single one runs here to its end. `urls` is a file, which is read line by line, or a list. `resume` goes on with
        the run that was started last. Raise a `LongshoreError` if it cannot be started.
        """
        scraper = find(name)
        jobs = urls if urls is None or isinstance(urls, str | Path) else list(urls)
        done = longshore.start(scraper, urls=jobs, run=run_id, resume=resume, queue=self._queue)
        return self._shown(scraper.name, done)

    def dry_run(self, name: str, urls: str | Path) -> dict[str, Any]:
        """Do all that a start does with the URLs of a file in a queue of its own, and throw that queue away.

        It counts what would be enqueued, and what is a duplicate within the file. Raise an `InputFileError` that names
        the line if one is no URL.
        """
        scraper = find(name)
        with tempfile.TemporaryDirectory(prefix="registers-") as folder:
            queue = f"sqlite:///{folder}/queue.db"
            done = longshore.submit(scraper.kind or "", urls, run="dry", queue=queue)
        return {"status": "dry_run", "enqueued": done.submitted, "duplicates": done.duplicates}

    def get_stats(self, name: str, run_id: str) -> dict[str, int]:
        """Return `pending`, `claimed`, `completed`, `failed` and `remaining` of a run of this scraper.

        Raise `NotFoundError` if there is no such scraper, or no such run.
        """
        find(name)
        count = longshore.stats(run_id, queue=self._queue)
        return {name: getattr(count, name) for name in ("pending", "claimed", "completed", "failed", "remaining")}

    @staticmethod
    def _shown(name: str, done: Queued | Finished) -> dict[str, Any]:
        shown: dict[str, Any] = msgspec.to_builtins(done)
        if isinstance(done, Queued):
            arguments = ("--scraper", name, "--run-id", done.run_id, "--batch-size", str(BATCH))
            # The queue is not part of it: a worker finds it where this command did, and no password is shown.
            shown["worker_command"] = f"{python()} -m registers.worker {shlex.join(arguments)}"
        return shown
