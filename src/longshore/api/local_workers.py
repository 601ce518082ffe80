"""Be a worker, from a script, as `longshore work` is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longshore.api.loops import wait_for

if TYPE_CHECKING:
    from longshore.handlers.handler import Handler
    from longshore.handlers.worker_class import Worker
    from longshore.worker import WorkerReport


def work(
    handlers: str | Path | Handler | type[Worker],
    *,
    run: str | None = None,
    queue: str | None = None,
    profile: str | None = None,
    worker_id: str | None = None,
    concurrency: int | None = None,
    max_work: int | None = None,
    max_empty_polls: int | None = None,
    max_idle_hours: float | None = None,
    until_done: bool = False,
) -> WorkerReport:
    """Be one worker of a queue until a limit, the end of the run or a signal; the same as `longshore work`.

    Return the final report: what it did, why it stopped (`reason`), and the `exit_code` of the command. `handlers` is
    a handler file, or a handler; one that only this program has must be an `async def`. Settings that are not given
    come from the environment, `.env`, `longshore.toml` and the profile. Log lines go to standard error, unless the
    program has configured its logs. Raise a `LongshoreError` if it cannot begin.
    """
    from datetime import timedelta

    import structlog

    from longshore.errors import UsageError
    from longshore.fleet.supervise.worker_slot import Attendance
    from longshore.handlers.load import file_being_imported, load_handlers
    from longshore.lease import WorkerId
    from longshore.observe import configure
    from longshore.runs.local.handler_place import place_of
    from longshore.runs.local.one_worker import stop_conditions_of, worker_info
    from longshore.runs.open_queue import check_shared
    from longshore.runs.schedules.trigger import ScheduleTrigger
    from longshore.settings import export_dotenv, export_profile, resolve
    from longshore.worker import WorkerConfig
    from longshore.worker import work as work_on
    from longshore.worker.kit.config import KitConfig
    from longshore.worker.kit.proxy_setup import check_tools
    from longshore.worker.lifecycle.egress import guard

    if (importing := file_being_imported()) is not None:
        raise UsageError(
            f"longshore.work is called while {importing.name} is imported, which every worker does. Put the call below "
            'if __name__ == "__main__":'
        )
    settings = resolve(
        {
            "queue": queue,
            "profile": profile,
            "worker_id": worker_id,
            "concurrency": concurrency,
            "max_work": max_work,
            "max_empty_polls": max_empty_polls,
            "max_idle_hours": max_idle_hours,
        }
    )
    check_shared(settings)
    check_tools(settings)
    gate = guard(settings)
    export_dotenv()
    export_profile(settings)
    level = "debug" if settings.debug else "info"
    if not structlog.is_configured():
        configure(format=settings.log_format, level=level)  # type: ignore[arg-type]  # checked by the table of settings
    if isinstance(handlers, str | Path):
        file, found = Path(handlers), load_handlers(Path(handlers))
    else:
        place = place_of(handlers, None)
        file, found = place.file, dict(place.own_handlers or load_handlers(place.file))
    worker = WorkerId.new(settings.worker_id)
    config = WorkerConfig(
        queue_url=settings.queue,
        handler_file=file,
        worker=worker,
        lease=timedelta(seconds=settings.lease_seconds),
        run=run,
        scope=Attendance(worker_info(settings, sorted(found))),
        concurrency=settings.concurrency,
        delay=settings.delay,
        batch_size=settings.batch_size,
        poll_interval=settings.poll,
        stop=stop_conditions_of(settings, run, until_done=until_done),
        kit=KitConfig.of(settings, worker),
        log_level=level,
    )
    return wait_for(work_on(config, handlers=found, gate=gate, starts=ScheduleTrigger))
