"""The worker that volunteers start.

    python -m competitions.worker --repo-url URL [--environment production] [--max-work 50] [--max-failures 20]
                                  [--max-idle-hours 2.0]

Each option may also be set in `.env`; see `.env.example`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog

import longshore
from competitions.driver import Driver, driver_of
from competitions.log_file import LoggedTerminal
from competitions.scraper import counted, scrape_competition
from longshore import AsyncKit, Job, LongshoreError, handler
from longshore.errors import UsageError
from longshore.lease import WorkerId
from longshore.observe import configure
from longshore.settings import DEFAULT, Settings, resolve
from longshore.url import mask_url

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from longshore.handlers.handler import Handler
    from longshore.worker import WorkerReport

KIND = "competition"
LOGS = Path(".longshore/logs/competitions")
MAX_WORK, MAX_FAILURES, MAX_IDLE_HOURS = 50, 20, 2.0
Process = Callable[[dict[str, Any], Driver, "FilteringBoundLogger"], Mapping[str, Any]]


def competition_handler(process: Process) -> Handler:
    """Return the handler of competitions: it gives `process` a work order and a driver, in a thread of its own."""

    @handler(KIND, timeout=1800, retries=3)
    async def competition(job: Job, kit: AsyncKit) -> Mapping[str, Any]:
        order = {"id": job.id, "work_order_id": job.key, **job.payload}
        async with driver_of(kit, chrome=uses_chrome()) as driver:
            return await asyncio.to_thread(process, order, driver, kit.log)

    return competition


class DistributedWorker:
    """One worker of the fleet. Override `process_work_order` to do work of your own."""

    def __init__(self, repo_url: str | None = None, environment: str | None = "production") -> None:
        """`repo_url` is the repository with the work; None takes `GITHUB_REPO_URL`, and None for `environment`
        `ENVIRONMENT`, of the environment or `.env`."""
        self.repo_url = None if repo_url is None else queue_url(repo_url)
        self.environment = environment
        self.worker_id = WorkerId.new().label
        self._log: FilteringBoundLogger = structlog.get_logger()

    def process_work_order(self, work_order: dict[str, Any], driver: Driver) -> Mapping[str, Any]:
        """Return the result of one work order, which has at least `id`, `competition_id` and `url`.

        What it raises goes to the retry queue with the work order, up to three times.
        """
        return self.scrape(work_order, driver, self._log)

    @staticmethod
    def scrape(work_order: dict[str, Any], driver: Driver, log: FilteringBoundLogger) -> Mapping[str, Any]:
        """Scrape the competition of a work order."""
        return scrape_competition(work_order, driver, log)

    def run_worker_cycle(
        self,
        max_work_orders: int | None = None,
        max_consecutive_failures: int | None = None,
        max_idle_hours: float | None = None,
    ) -> WorkerReport:
        """Work until a limit is reached, or until Ctrl-C. Return the report, with the reason and the counts.

        A limit that is not given comes from the environment, `.env` or the profile; without any it is 50 work orders,
        20 looks in a row that found nothing, and 2 hours without work. 0 is no limit. Raise a `LongshoreError` if the
        work cannot begin.
        """
        settings = resolve({"queue": self.repo_url, "profile": self.environment})
        if settings.source("queue") == DEFAULT:
            raise UsageError("Which repository has the work? Give --repo-url URL, or set GITHUB_REPO_URL in .env.")
        if settings.source("browser") == DEFAULT:
            os.environ["LONGSHORE_BROWSER"] = "selenium"
        if not structlog.is_configured():
            level = "debug" if settings.debug else "info"
            name = re.sub(r"[^\w-]+", "_", settings.worker_id or self.worker_id)
            shown = LoggedTerminal(sys.stderr, LOGS / f"{name}.log")
            configure(format=settings.log_format, level=level, stream=cast(TextIO, shown))  # type: ignore[arg-type]
        work = _limit(settings, "max_work", max_work_orders, MAX_WORK)
        failures = _limit(settings, "max_empty_polls", max_consecutive_failures, MAX_FAILURES)
        idle = _limit(settings, "max_idle_hours", max_idle_hours, MAX_IDLE_HOURS)
        self._introduce(settings, int(work), int(failures), idle)
        return longshore.work(
            competition_handler(self._process),
            queue=queue_url(settings.queue),
            profile=self.environment,
            worker_id=self.worker_id if settings.worker_id is None else None,
            # A browser takes as much memory as a small machine has to spare.
            concurrency=1 if settings.source("concurrency") == DEFAULT else None,
            max_work=int(work),
            max_empty_polls=int(failures),
            max_idle_hours=idle,
        )

    def _process(self, work_order: dict[str, Any], driver: Driver, log: FilteringBoundLogger) -> Mapping[str, Any]:
        self._log = log
        return self.process_work_order(work_order, driver)

    def _introduce(self, settings: Settings, work: int, failures: int, idle: float) -> None:
        log = structlog.get_logger()
        limits = [counted(work, "job")] if work else []
        limits += [f"{counted(failures, 'look')} in a row without work"] if failures else []
        limits += [f"{idle} hours without work"] if idle else []
        until = f"until {', '.join(limits)}" if limits else "without a limit"
        log.info(f"Starting a work cycle ({settings.profile}): {until}", pictogram="🚀")
        log.info(f"Bridge initialized: the work is in {mask_url(queue_url(settings.queue))}", pictogram="🌉")
        if not uses_chrome():
            log.info("Browser not needed: pages are read without one", pictogram="🌐")
            return
        from longshore.scrape.browser import find_browser

        log.info(f"Browser initialized: {find_browser().path}", pictogram="🌐")


def uses_chrome() -> bool:
    """Return whether pages are opened in Chrome (`COMPETITIONS_BROWSER`, the default), or by plain requests."""
    return os.environ.get("COMPETITIONS_BROWSER", "chrome") != "none"


def queue_url(repository: str) -> str:
    """Return the URL of the queue in a repository, as people write it: with or without `git+` and `.git`."""
    if repository.startswith(("git+", "git@", "ssh://")):
        return repository
    if "://" in repository:
        return f"git+{repository}"
    folder = Path(repository)
    return f"git+file://{folder.resolve()}" if folder.is_dir() else repository


def _limit(settings: Settings, name: str, given: float | None, default: float) -> float:
    if given is not None:
        return given
    value: float = getattr(settings, name)
    return default if settings.source(name) == DEFAULT else value


def main() -> int:
    """Be a worker, and return the exit code of `longshore work`."""
    options = argparse.ArgumentParser(prog="python -m competitions.worker", description="Work on competitions.")
    options.add_argument("--repo-url", metavar="URL", help="the repository with the work (GITHUB_REPO_URL)")
    options.add_argument("--environment", "--profile", help="development, testing or production (ENVIRONMENT)")
    options.add_argument("--max-work", type=int, metavar="N", help="stop after N jobs (MAX_WORK_ORDERS, 50)")
    options.add_argument(
        "--max-failures",
        type=int,
        metavar="N",
        help="stop after finding no work N times in a row (MAX_CONSECUTIVE_FAILURES, 20)",
    )
    options.add_argument(
        "--max-idle-hours", type=float, metavar="H", help="stop after H hours without work (MAX_IDLE_HOURS, 2.0)"
    )
    given = options.parse_args()
    try:
        worker = DistributedWorker(given.repo_url, given.environment)
        return worker.run_worker_cycle(given.max_work, given.max_failures, given.max_idle_hours).exit_code
    except LongshoreError as error:
        print(f"{error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
