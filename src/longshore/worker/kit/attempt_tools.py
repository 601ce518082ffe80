"""The traces of an attempt: its records, the pages it fetched, a bundle of its failure."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from longshore.errors import SnoozeError
from longshore.handlers.handler import Handler
from longshore.handlers.kit import Kit
from longshore.job import Job
from longshore.outcome import Completed, Failed, Outcome
from longshore.scrape.capture.failure_bundles import FailureBundles
from longshore.scrape.capture.failure_signature import signature_of
from longshore.scrape.capture.page_store import PageStore
from longshore.scrape.capture.trail import Trail
from longshore.scrape.records import Emission, Emitted
from longshore.worker.kit.config import KitConfig
from longshore.worker.kit.outbox import attempt_pages

_NUMBER = re.compile(r"\d+(\.\d+)?")
_LOG_AGAIN_SECONDS = 60.0

log = structlog.get_logger()


class AttemptTools:
    """Keeps what attempts leave behind, in the worker and in its children: records, pages, failure bundles."""

    def __init__(self, config: KitConfig, worker: str) -> None:
        folder = Path(config.folder if config.outbox is None else config.outbox)
        self._logged_at: dict[str, float] = {}
        self._pages: Callable[[Job], PageStore] | None = None
        if config.keep_pages:
            store = PageStore(folder / "pages")
            self._pages = (lambda _: store) if config.outbox is None else partial(attempt_pages, folder)
        self._at_server = config.outbox is not None
        self._bundles = (
            FailureBundles(folder / "bundles", each=config.bundles, worker=worker, settings=config.settings)
            if config.bundles
            else None
        )

    def trail(self, kit: Kit) -> Trail:
        """Return the trail of an attempt, made at the first call."""
        if kit.trail is None:
            kit.trail = Trail(None if self._pages is None else self._pages(kit.job).attempt(kit.job))
        return kit.trail

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """As `Kit.emit`."""
        if kit.emission is None:
            handler = kit.handler
            kit.emission = Emission() if handler is None else Emission(handler.emits, handler.keep)
        return kit.emission.emit(record, kind)

    def finish(self, kit: Kit, outcome: Outcome | None, error: BaseException | None) -> Emitted | None:
        """Keep the pages and the failure of an attempt that is over. Returns its records if it completed."""
        if isinstance(error, SnoozeError):
            self._log_snooze(error)
        elif isinstance(outcome, Failed) and kit.handler is not None:
            self.failed(kit.job, kit.handler, outcome, error, kit.trail)
        if kit.trail is not None:
            try:
                kit.trail.close()
            except OSError as fault:
                log.warning("The pages of this job could not be kept", error=str(fault))
            except Exception:
                # Keeping pages must never fail the job, or the worker.
                log.exception("The pages of this job could not be kept")
        if kit.emission is None or not isinstance(outcome, Completed):
            return None
        return kit.emission.emitted()

    def _log_snooze(self, error: SnoozeError) -> None:
        """Log why a job comes back later; the same reason at most once a minute."""
        reason, now = _NUMBER.sub("", str(error)), time.monotonic()
        if now - self._logged_at.get(reason, -_LOG_AGAIN_SECONDS) >= _LOG_AGAIN_SECONDS:
            if len(self._logged_at) > 1000:
                self._logged_at.clear()
            self._logged_at[reason] = now
            log.info(f"Later: {error}")

    def failed(
        self, job: Job, handler: Handler, outcome: Failed, error: BaseException | None, trail: Trail | None = None
    ) -> None:
        """Keep a bundle of a failed attempt, unless there are enough of the same kind."""
        if self._bundles is None:
            return
        if trail is not None and error is not None:
            from longshore.scrape.browser import picture_of

            if (picture := picture_of(error)) is not None:
                trail.screenshot = picture.screenshot
        signature = signature_of(outcome.failure, handler.function, error)
        try:
            place = self._bundles.keep(job, outcome.failure, signature, trail)
        except OSError as fault:
            log.warning("No bundle of this failure could be kept", error=str(fault))
            return
        except Exception:
            # As above: keeping a bundle must never change the outcome.
            log.exception("No bundle of this failure could be kept")
            return
        if place is not None:
            code = getattr(handler.function, "__code__", None)
            file = "FILE" if code is None else os.path.relpath(code.co_filename)
            # One in the outbox has only its name at the server.
            bundle = place.name if self._at_server else str(place)
            log.info(f"Kept this failure: longshore replay {shlex.join((bundle, file))}", place=signature.place)
