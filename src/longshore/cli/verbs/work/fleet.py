"""`longshore fleet`: run many workers on this machine, supervised."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.cli.options import meaning
from longshore.errors import UsageError
from longshore.fleet.sizing.autoscale import PER, ScalingPolicy, SizeBounds
from longshore.settings import TABLE

if TYPE_CHECKING:
    from longshore.fleet.launch.launch import LaunchOptions
    from longshore.runs.published.prepare import CodeRequest


def fleet(
    file: options.HandlerFile = None,
    workers: Annotated[str | None, typer.Option(metavar="N", help=meaning("workers"), show_default=False)] = None,
    autoscale: Annotated[
        str | None,
        typer.Option(
            metavar="MIN:MAX",
            help="As many workers as the pending jobs need, within these bounds and what this machine allows, "
            "instead of --workers.",
            show_default=False,
        ),
    ] = None,
    per: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help=f"With --autoscale: one worker for every N pending jobs. [default: {PER}]"
        ),
    ] = None,
    run: options.Run = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", metavar="", help="Stop when nothing is left to do.")
    ] = False,
    partitions: Annotated[
        str | None, typer.Option(metavar="P,…", help="Only these partitions.", show_default=False)
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A fixed table (TOML or JSON) of the partitions of each worker.", show_default=False
        ),
    ] = None,
    strict_partitions: Annotated[
        bool | None, typer.Option("--strict-partitions", metavar="", help=meaning("strict_partitions"))
    ] = None,
    stagger: Annotated[str | None, typer.Option(metavar="S", help=meaning("stagger"), show_default=False)] = None,
    test: Annotated[
        bool,
        typer.Option(
            "--test", metavar="", help="Only workers 0 and 1, with the partitions they have in the whole fleet."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Check and show everything, and start nothing.")
    ] = False,
    yes: options.Yes = False,
    accept: options.Accept = None,
    concurrency: options.Concurrency = None,
    lease_seconds: options.LeaseSeconds = None,
    profile: options.Profile = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Check everything, show the plan, ask, and start workers that are supervised and restarted after a crash.

    Without FILE the handlers come from the queue itself, as with 'longshore work'.

    Ctrl-C (or `longshore stop` in another terminal) lets them finish their jobs; a second one makes them give the jobs
    back. The logs are in logs/. The exit code is 1 if a check failed, a worker was given up, or jobs failed because
    their process died; with --until-done also if jobs were left. It is 130 after a second Ctrl-C.
    """
    from longshore.observe.structlog_plain import import_structlog_alone

    # Before the imports below, which would import structlog with all its optional parts.
    import_structlog_alone()
    from longshore.fleet.launch.launch import LaunchOptions

    check_order("--stagger", stagger, "-")
    policy = policy_of(autoscale, per)
    if policy is not None:
        for option, value in (("--workers", workers), ("--table", table), ("--test", test)):
            if value:
                raise UsageError(f"--autoscale and {option} both say which workers there are. Leave one of them out.")
        workers = str(policy.first)
    given = {
        "workers": workers,
        "strict_partitions": strict_partitions,
        "stagger": stagger,
        "concurrency": concurrency,
        "lease_seconds": lease_seconds,
        "profile": profile,
        "queue": queue,
        "debug": debug,
    }
    request = code = None
    if file is None:
        from longshore.runs.published.prepare import ready_code
        from longshore.settings import resolve
        from longshore.ui.published.work_here import code_request

        request = code_request(resolve(given), run, accept, "fleet")
        code = asyncio.run(ready_code(request))
    elif accept is not None:
        raise UsageError("--accept is for the handlers of the queue, and FILE names others. Leave one of them out.")
    launch_options = LaunchOptions(
        file=code.file if code is not None else file or Path(),
        code=code,
        given={name: value for name, value in given.items() if value is not None},
        run=run,
        partitions=partitions,
        table=table,
        trial=test,
        until_done=until_done,
        policy=policy,
        needs_dotenv=Path(".env.example").is_file(),
    )
    return asyncio.run(_fleet(launch_options, request, dry_run=dry_run, yes=yes))


def check_order(option: str, given: str | None, between: str) -> None:
    """Raise `UsageError` for a range whose larger number comes first. Other errors are found when it is parsed."""
    lower, separator, upper = (given or "").partition(between)
    try:
        reversed_ = bool(separator) and float(lower) > float(upper)
    except ValueError:
        return
    if reversed_:
        right = f"{upper.strip()}{between}{lower.strip()}"
        raise UsageError(f"{option} cannot be '{given}': the smaller number comes first, {right}.")


def policy_of(autoscale: str | None, per: int | None) -> ScalingPolicy | None:
    """Return how the fleet sizes itself; None for a fixed size."""
    if autoscale is not None:
        check_order("--autoscale", autoscale, ":")
        bounds = SizeBounds.parse(autoscale, "--autoscale")
        if not TABLE["workers"].holds(bounds.highest):
            raise UsageError(
                f"--autoscale cannot be '{autoscale}': a machine has {TABLE['workers'].at_most:,} workers at most."
            )
        return ScalingPolicy(bounds, per or PER)
    if per is not None:
        raise UsageError("--per belongs to --autoscale, which was not given. Add --autoscale 1:50, for example.")
    return None


async def _fleet(launch_options: LaunchOptions, request: CodeRequest | None, *, dry_run: bool, yes: bool) -> int:
    import structlog

    from longshore.extensions.find import find
    from longshore.extensions.published_code import check_not_pinned
    from longshore.extensions.shared_state import SharedState
    from longshore.fleet.launch.launch import check_launch
    from longshore.fleet.supervise.control import FleetControl
    from longshore.runs.open_queue import open_existing, open_or_create
    from longshore.runs.published.prepare import ready_code
    from longshore.ui.fleet.launch_summary import confirm_start, show_checks, show_launch
    from longshore.ui.fleet.supervision import supervise

    control = FleetControl()
    if not dry_run:
        control.check_free()
    checked = await check_launch(launch_options, open_existing)
    show_checks(checked)
    if not checked.passed:
        return 1
    launch = checked.launch()
    show_launch(launch)
    # The question blocks the event loop, in which nothing runs yet.
    if dry_run or not confirm_start(launch, yes=yes):
        return 0
    # Only now: `open_or_create` creates a missing queue, and until here nothing was to be created.
    async with open_or_create(launch.settings) as queue:
        if request is None:
            if launch.options.run is not None:
                await check_not_pinned(find(queue, SharedState), launch.options.run, "fleet")
            return await supervise(launch, queue, control)
        # While the fleet runs, its view has the terminal, so nothing is asked.
        silent = replace(request, ask=None, accept=None, say=structlog.get_logger().info)
        return await supervise(launch, queue, control, partial(ready_code, silent))
