"""The outbox: pages and failure bundles of a worker whose queue keeps them, until they are sent.

Attempts write here as they otherwise write to the data folder, in the worker and in its child processes. Before an
attempt is settled, the worker sends what is complete, and removes it. A worker that is killed leaves its outbox; the
next one in the same folder removes it, because the attempts that were not settled are made again.

    outbox/NAME/lock            held while the worker lives
    outbox/NAME/pages/ab12…/    a page store for each attempt
    outbox/NAME/bundles/…/      failure bundles; an empty file in the place of one that was sent
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

import structlog

from longshore.errors import LongshoreError, QueueFullError, QueueUnavailableError
from longshore.extensions.traces import StoredPage, TraceKeeper
from longshore.job import Job
from longshore.scrape.capture.failure_bundles import bundle_files, read_bundle
from longshore.scrape.capture.page_store import AttemptPages, JobPages, PageStore
from longshore.system.descriptors import open_binary
from longshore.system.file_lock import hold_open_file
from longshore.system.private_files import make_private
from longshore.worker.kit.config import KitConfig

_NEW_SECONDS = 60.0
"""An outbox without a lock this young is just being made."""

log = structlog.get_logger()


def attempt_pages(outbox: Path, job: Job) -> PageStore:
    """Return the page store of one attempt in an outbox."""
    name = "\0".join((job.queue, job.id, str(job.epoch)))
    return PageStore(outbox / "pages" / hashlib.sha256(name.encode()).hexdigest()[:20])


def outbox_of(config: KitConfig, worker: str) -> Outbox:
    """Return the outbox of a worker with this incarnation."""
    label = re.sub(r"[^A-Za-z0-9_-]+", "_", worker.partition("/")[0])[:40]
    name = f"{label}-{hashlib.sha256(worker.encode()).hexdigest()[:12]}"
    return Outbox((Path(config.folder) / "outbox" / name).absolute())


class Outbox:
    """The outbox of one worker."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is of this worker alone."""
        self.folder = folder
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder, and remove those of workers that have died. Raise `OSError` if it cannot be made."""
        make_private(self.folder)
        self._lock = open_binary(self.folder / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
        hold_open_file(self._lock, wait=True)
        for other in self.folder.parent.iterdir():
            if other != self.folder and _is_abandoned(other):
                shutil.rmtree(other, ignore_errors=True)

    async def send(self, keeper: TraceKeeper) -> None:
        """Send what is complete. Raise `QueueUnavailableError` if the queue does not answer; nothing is lost by that.

        A page or bundle that the queue refuses is given up with a warning: no job fails because of it.
        """
        for place in _folders(self.folder / "pages"):
            if await asyncio.to_thread(_is_complete, place):
                await self._sent(keeper, place, "The pages of a job")
        for place in _folders(self.folder / "bundles"):
            if not place.name.startswith("."):
                await self._sent(keeper, place, "The bundle of a failure")

    async def _sent(self, keeper: TraceKeeper, place: Path, what: str) -> None:
        try:
            if place.parent.name == "pages":
                await _send_pages(keeper, place)
            else:
                await _send_bundle(keeper, place)
        except QueueFullError as error:
            log.warning(f"{what} could not be kept", error=str(error))
        except QueueUnavailableError:
            raise
        except (LongshoreError, OSError) as error:
            log.warning(f"{what} could not be kept", error=str(error))
        await asyncio.to_thread(_remove, place)

    def close(self) -> None:
        """Remove the folder. Whatever is still in it belongs to attempts that were not settled."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)
            shutil.rmtree(self.folder, ignore_errors=True)
            for parent in (self.folder.parent, self.folder.parent.parent):
                with suppress(OSError):
                    parent.rmdir()


async def _send_pages(keeper: TraceKeeper, place: Path) -> None:
    store = PageStore(place)
    for known, attempt in await asyncio.to_thread(_attempts, store):
        digests = {each for page in attempt.pages for each in _contents(page)}
        for digest in await keeper.missing_contents(sorted(digests)):
            # One by one: a page may have megabytes.
            content = await asyncio.to_thread(store.content, digest)
            if content is not None:
                await keeper.put_contents([content])
        job = Job(
            id=attempt.job,
            run=known.run,
            kind=known.kind,
            key=known.key,
            payload={},
            epoch=attempt.epoch,
            queue=attempt.queue,
        )
        await keeper.put_pages(job, attempt.pages)


def _folders(parent: Path) -> list[Path]:
    """Return the folders in one that may not exist. Quick, because it is asked with every settlement."""
    try:
        with os.scandir(parent) as found:
            return [Path(entry.path) for entry in found if entry.is_dir()]
    except FileNotFoundError:
        return []


def _is_complete(pages: Path) -> bool:
    """Return whether the attempt with this page store is over: its list of pages is written at the end."""
    return next(pages.glob("jobs/*/*.json"), None) is not None


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    if place.parent.name == "bundles":
        # The processes of this worker make no other bundle of the same failure.
        with suppress(OSError):
            place.touch()


def _attempts(store: PageStore) -> list[tuple[JobPages, AttemptPages]]:
    return [(known, attempt) for known in store.all() for attempt in known.attempts]


def _contents(page: StoredPage) -> list[str]:
    return [page.content, page.request_body] if page.request_body else [page.content]


async def _send_bundle(keeper: TraceKeeper, place: Path) -> None:
    bundle, _ = await asyncio.to_thread(read_bundle, place)
    await keeper.put_bundle(bundle.job, await asyncio.to_thread(bundle_files, place))


def _is_abandoned(folder: Path) -> bool:
    """Return whether no process holds the lock of an outbox."""
    try:
        lock = open_binary(folder / "lock", os.O_WRONLY)
    except OSError:
        with suppress(OSError):
            return time.time() - folder.stat().st_mtime > _NEW_SECONDS
        return False
    try:
        return hold_open_file(lock, wait=False)
    finally:
        os.close(lock)
