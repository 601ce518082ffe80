"""`longshore copy`: copy jobs into another queue, check jobs out for offline work, and merge them back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options
from longshore.errors import QueueError, UsageError

if TYPE_CHECKING:
    from longshore.queue import Count, Queue
    from longshore.runs.transfer.copy_jobs import Progress
    from longshore.runs.transfer.offline_checkout import CheckoutFile, Terms
    from longshore.runs.transfer.offline_merge import MergeResult
    from longshore.settings import Settings

DEFAULT_HOLD = "24h"
LEFT_SOME = 1

_REPEAT = "The jobs copied until now are complete. Repeat the command to continue."
_RESUME = "The jobs copied until now are complete. Repeat the command with --resume to continue."
_RESUME_MOVE = f"{_RESUME} Until then, FROM gives the jobs in flight to no worker."


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The queue to copy from, by its URL or path.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="The queue to copy to. It is created if it does not exist.")
    ],
    run: options.Run = None,
    move: Annotated[
        bool,
        typer.Option(
            "--move", metavar="", help="Remove from FROM each job that has arrived, so that each is in one place."
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Continue an interrupted copy. Nothing is overwritten.")
    ] = False,
    claim: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Check out up to N pending jobs, to work on them offline.", show_default=False
        ),
    ] = None,
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=f"With --claim: how long FROM keeps them for you: 90m, 7d. [dim]\\[default: {DEFAULT_HOLD}][/dim]",
            show_default=False,
        ),
    ] = None,
    kinds: Annotated[
        str | None, typer.Option(metavar="K,…", help="With --claim: only these kinds.", show_default=False)
    ] = None,
    partitions: Annotated[
        str | None, typer.Option(metavar="P,…", help="With --claim: only these partitions.", show_default=False)
    ] = None,
    debug: options.Debug = None,
) -> int:
    """Copy a run, or all runs, from one queue into another, with states, attempts, results and history.

    Works between any two media. FROM is not changed, unless --move is given. Jobs of these runs that are in TO are
    never overwritten: the copy is refused, or with --resume copies only the missing jobs.

    With --claim, TO becomes an offline checkout (a folder or a sqlite file) that can be taken to another machine: work
    on it with 'longshore work FILE --queue TO --until-done', and merge it back with 'longshore copy TO FROM'. A job
    that FROM has given to another worker meanwhile, because the hold had expired, stays as it is in FROM.

    The exit code is 0 if everything was copied, and 1 if jobs were left for later.
    """
    from longshore.observe.logs import configure

    here, there = _settings(source, "FROM", debug=debug), _settings(target, "TO", debug=debug)
    _refuse_same(here.queue, there.queue)
    # The command says itself what the wrappers of a worker's queue would log.
    configure(format=here.log_format, level="debug" if here.debug else "error")  # type: ignore[arg-type]
    terms = _terms(run, claim, hold, kinds, partitions)
    if terms is not None and move:
        raise UsageError("--claim checks jobs out for a while, --move removes them for good. Give only one of them.")
    checkout_file = _checkout_file_of(here.queue)
    if terms is None and checkout_file is not None and checkout_file.exists():
        if move or run is not None:
            raise UsageError(
                f"{source} is an offline checkout ({checkout_file}), which can only be merged as a whole. Leave out "
                "--move and --run."
            )
        return _run_until_done(_merge_back(here, there, checkout_file), _REPEAT)
    if terms is not None:
        return _run_until_done(_check_out(here, there, terms, resume=resume), _RESUME)
    if move:
        return _run_until_done(_move(here, there, run, resume=resume), _RESUME_MOVE)
    return _run_until_done(_copy(here, there, run, resume=resume), _RESUME)


def _settings(url: str, name: str, *, debug: bool | None) -> Settings:
    from dataclasses import replace

    from longshore.media import full_url
    from longshore.settings import ValueSource, resolve

    settings = resolve({"queue": full_url(url), "debug": debug})
    return replace(settings, sources={**settings.sources, "queue": ValueSource("command line", name)})


def _refuse_same(source: str, target: str) -> None:
    if source == target or (_path_of(source) or source) == (_path_of(target) or target):
        raise UsageError("FROM and TO are the same queue. Name two.")


def _path_of(url: str) -> Path | None:
    """Return the path of a queue that is a file or a folder; None for any other."""
    from longshore.media import scheme_of
    from longshore.media.directory.location import path_of as folder_of
    from longshore.media.sqlite.location import path_of as file_of

    of = {"dir": folder_of, "sqlite": file_of}.get(scheme_of(url))
    return of(url).resolve() if of is not None else None


def _checkout_file_of(url: str) -> Path | None:
    """Return the path of a checkout file: in the queue's folder, or beside its file. None for any other queue."""
    from longshore.media import scheme_of

    path = _path_of(url)
    if path is None:
        return None
    return path / "bundle.jsonl" if scheme_of(url) == "dir" else path.with_name(f"{path.name}.bundle.jsonl")


def _terms(
    run: str | None, claim: int | None, hold: str | None, kinds: str | None, partitions: str | None
) -> Terms | None:
    from longshore.runs.transfer.offline_checkout import Terms

    if claim is None:
        for name, value in (("--hold", hold), ("--kinds", kinds), ("--partitions", partitions)):
            if value is not None:
                raise UsageError(f"{name} works only with --claim N. Add --claim N, or leave {name} out.")
        return None
    length = options.age(hold or DEFAULT_HOLD, "--hold")
    assert length is not None  # noqa: S101 - a text was given
    if not length:
        raise UsageError("--hold must be longer than 0. Write a time such as 24h.")
    return Terms(limit=claim, hold=length, run=run, kinds=options.listed(kinds), partitions=options.listed(partitions))


def _run_until_done(doing: Coroutine[Any, Any, int], advice: str) -> int:
    from longshore.ui.output import note

    try:
        return asyncio.run(doing)
    except KeyboardInterrupt:
        note(advice)
        raise


async def _copy(here: Settings, there: Settings, run: str | None, *, resume: bool) -> int:
    from longshore.runs.transfer.copy_jobs import copy as copy_jobs
    from longshore.ui.output import write
    from longshore.ui.published.left_behind import write_code_left
    from longshore.ui.words import counted

    async with _both(here, there, run, resume=resume) as (source, target, total):
        with _progress("Copying", total, _RESUME) as progress:
            done = await copy_jobs(source, target, run, progress=progress)
        known = f" {counted(done.known, 'job')} had arrived before." if done.known else ""
        write(f"{counted(done.new, 'job')} copied to {_shown(there)}.{known}")
        if done.held:
            write(f"{_are(done.held)} held by a worker in {_shown(here)}, and pending in the copy.")
        await _write_states(target, run)
        await _write_records_left(source, target, run, here)
        await write_code_left(source, run, _shown(here), _shown(there))
    return 0


async def _move(here: Settings, there: Settings, run: str | None, *, resume: bool) -> int:
    from longshore.clock import SystemClock
    from longshore.runs.transfer.move_jobs import Move
    from longshore.ui.output import write
    from longshore.ui.published.left_behind import write_code_left
    from longshore.ui.words import counted
    from longshore.wrappers.worker_queue import WorkerQueue

    async with _both(here, there, run, resume=resume) as (source, target, total):
        with _progress("Moving", total, _RESUME_MOVE) as progress:
            # Absolute paths: an interrupted move is recognised by the names of both queues, from any folder.
            route = (str(_path_of(here.queue) or here.queue), str(_path_of(there.queue) or there.queue))
            mover = WorkerQueue(source, SystemClock(), fingerprint=None)
            done = await Move(mover, target, run, route=route).carry_out(progress)
        write(f"{counted(done.moved, 'job')} moved to {_shown(there)}.")
        await _write_states(target, run)
        await write_code_left(source, run, _shown(here), _shown(there))
        waiting = await _write_paused(source, run, here)
    left = done.left
    if left.claimed:
        write(f"{_are(left.claimed)} held by a worker and stayed. Repeat the command with --resume when it is done.")
    if (later := left.pending - done.given_up - waiting) > 0:
        write(f"{_are(later)} not due yet and stayed. Repeat the command with --resume later.")
    if done.given_up:
        write(
            f"{_are(done.given_up)} pending in {_shown(here)}, and failed or cancelled in {_shown(there)}: "
            "kept in both."
        )
    if done.with_records:
        stayed = "job has" if done.with_records == 1 else "jobs have"
        write(
            f"{done.with_records:,} completed {stayed} stayed in {_shown(here)}, because the server keeps their "
            "records: export those with `longshore export RUN --records`, then prune the jobs there."
        )
    if done.differing:
        differ = "differs" if done.differing == 1 else "differ"
        write(f"{_are(done.differing)} finished in {_shown(here)} and {differ} in {_shown(there)}: kept in both.")
    return LEFT_SOME if left.total else 0


async def _check_out(here: Settings, there: Settings, terms: Terms, *, resume: bool) -> int:
    import time

    from longshore.clock import SystemClock
    from longshore.runs.open_queue import counts_of, open_existing, open_or_create
    from longshore.runs.transfer.copy_jobs import taking_over
    from longshore.runs.transfer.offline_checkout import CheckoutFile, check_out, prepare_checkout
    from longshore.ui.output import write
    from longshore.ui.words import counted, moment
    from longshore.wrappers.worker_queue import WorkerQueue

    path = _checkout_file_of(there.queue)
    if path is None:
        raise UsageError("An offline checkout must be a folder (dir://) or a file (sqlite:///). Name one as TO.")
    file: CheckoutFile | None = CheckoutFile.read(path) if resume and path.exists() else None
    if file is not None:
        _refuse_other_terms(file, terms)
    async with open_existing(here) as source:
        if terms.run is not None:
            await counts_of(source, terms.run, here)
        if file is None and path.exists():
            CheckoutFile.refuse_existing(path)
        async with open_or_create(there) as checkout:
            taking_over(checkout)
            if file is None:
                await prepare_checkout(checkout)
                file = CheckoutFile.create(path, here.queue, terms)
            with _progress("Checking out", terms.limit, _RESUME) as progress:
                # A run that is pinned to a version is checked out only if it is named.
                claiming = WorkerQueue(source, SystemClock(), fingerprint=None if terms.run is not None else "")
                taken = await check_out(claiming, checkout, file, progress=progress)
        if taken < terms.limit:
            await _write_paused(source, terms.run, here)
    if not taken:
        write(f"There is nothing to claim in {_shown(here)} now, so {_shown(there)} is empty.")
        return 0
    until = moment(time.time() + terms.hold.total_seconds())
    write(f"{counted(taken, 'job')} checked out to {_shown(there)}, and held for you until {until}.")
    write(f"Work on them:     longshore work FILE --queue {_shown(there)} --until-done")
    write(f"Merge them back:  longshore copy {_shown(there)} {_shown(here)}")
    return 0


def _refuse_other_terms(file: CheckoutFile, terms: Terms) -> None:
    if file.merged:
        raise UsageError("This offline checkout has been merged already. Name a new folder or file for the next one.")
    if file.head.terms != terms:
        raise UsageError(
            "This offline checkout was begun with other options. Give the same --claim, --hold, --run, --kinds and "
            "--partitions, or name a new folder or file."
        )


async def _merge_back(here: Settings, there: Settings, path: Path) -> int:
    from longshore.clock import SystemClock
    from longshore.runs.open_queue import open_existing
    from longshore.runs.transfer.copy_jobs import taking_over
    from longshore.runs.transfer.offline_checkout import CheckoutFile
    from longshore.runs.transfer.offline_merge import merge
    from longshore.wrappers.worker_queue import WorkerQueue

    clock = SystemClock()
    file = CheckoutFile.read(path)
    # The queue that the jobs came from exists; a missing one is the wrong one.
    async with open_existing(here) as checkout, open_existing(there) as source:
        with _progress("Merging", len(file.jobs), _REPEAT) as progress:
            taking_over(source)
            done = await merge(checkout, WorkerQueue(source, clock, fingerprint=None), file, clock, progress=progress)
        _write_merge(done, there)
        await _write_records_left(checkout, source, None, here)
    return LEFT_SOME if done.busy else 0


async def _write_records_left(source: Queue, target: Queue, run: str | None, here: Settings) -> None:
    """Say how many records did not come along: a server keeps those of its own queue, and has no others."""
    from longshore.extensions.find import find
    from longshore.extensions.traces import KeepsTraces
    from longshore.runs.records.run_records import run_records
    from longshore.ui.output import write
    from longshore.ui.words import counted

    if find(source, KeepsTraces) is None and find(target, KeepsTraces) is None:
        return
    runs = sorted({count.run for count in await source.stats(run) if count.completed})
    tallies = [await run_records(here, source, each).tally() for each in runs]
    if records := sum(sum(each.kept.values()) for each in tallies):
        write(
            f"Their {counted(records, 'record')} did not come along. Export them from the first queue: "
            f"longshore export RUN --records --queue {_shown(here)}"
        )


def _write_merge(done: MergeResult, there: Settings) -> None:
    from longshore.ui.output import write
    from longshore.ui.words import counted

    parts = [
        f"{number:,} {name}"
        for number, name in (
            (done.completed, "completed"),
            (done.failed, "failed"),
            (done.retried, "to be tried again"),
            (done.released, "given back"),
        )
        if number
    ]
    if done.created:
        parts.append(f"{counted(done.created, 'new job')}")
    if parts:
        write(f"Merged into {_shown(there)}: {', '.join(parts)}.")
    elif not done.refused:
        write(f"Nothing to merge into {_shown(there)}.")
    if done.merged_before:
        write(f"{_are(done.merged_before, 'was', 'were')} merged before.")
    if done.refused:
        write(
            f"{_are(done.refused, 'was', 'were')} done by another worker meanwhile, or taken back because the hold "
            "time had expired; nothing of them was written."
        )
    if done.left_out:
        write(
            f"{counted(done.left_out, 'follow-on job')} left out: beyond the limits of the run. Raise --max-depth or "
            "--max-jobs with 'longshore submit --run' before the merge, if you need them."
        )
    if done.orphans:
        write(
            f"{_are(done.orphans, 'was', 'were')} not merged, because the checkout no longer has the jobs that created "
            "them."
        )
    if done.busy:
        write(f"{_are(done.busy)} still being worked on in the checkout. Repeat the command when the worker is done.")


@asynccontextmanager
async def _both(
    here: Settings, there: Settings, run: str | None, *, resume: bool
) -> AsyncIterator[tuple[Queue, Queue, int]]:
    """Yield both open queues and the number of jobs to copy. The target is not created before it is needed."""
    from longshore.queue import totals
    from longshore.runs.open_queue import counts_of, open_existing, open_or_create
    from longshore.runs.transfer.copy_jobs import refuse_known_runs, taking_over

    async with open_existing(here) as source:
        counts = await source.stats(run)
        if run is not None and not counts and not (resume and await _has_arrived(there, run)):
            counts = await counts_of(source, run, here)
        async with open_or_create(there) as target:
            taking_over(target)
            if not resume:
                await refuse_known_runs(source, target, run)
            yield source, target, totals(counts).total


async def _has_arrived(there: Settings, run: str) -> bool:
    """Return whether a run is in the target: an earlier command may have moved all of it, and then been killed."""
    from longshore.media import exists
    from longshore.runs.open_queue import open_existing

    if not await exists(there.queue):
        return False
    async with open_existing(there) as target:
        return bool(await target.stats(run))


async def _write_paused(source: Queue, run: str | None, here: Settings) -> int:
    """Say which pending jobs stayed because their run is paused. Return how many."""
    from longshore.runs.control.pause import EVERYTHING, paused
    from longshore.ui.output import write

    stopped = await paused(source)
    counts = [each for each in await source.stats(run) if each.run in stopped or EVERYTHING in stopped]
    waiting = sum(each.pending for each in counts)
    if waiting:
        names = sorted({each.run for each in counts if each.pending})
        named = f"run {names[0]}" if len(names) == 1 else f"{len(names)} runs"
        resume = "longshore resume --all" if EVERYTHING in stopped else f"longshore resume {names[0]}"
        write(
            f"{_are(waiting)} pending in {named}, which {'is' if len(names) == 1 else 'are'} paused, and stayed. "
            f"'{resume} --queue {_shown(here)}' resumes; then repeat the command with --resume."
        )
    return waiting


async def _write_states(target: Queue, run: str | None) -> None:
    from longshore.job import State
    from longshore.queue import totals
    from longshore.ui.output import write

    count: Count = totals(await target.stats(run))
    states = ", ".join(f"{number:,} {state}" for state in State if (number := getattr(count, state)))
    if states:
        write(f"There now: {states}.")


@contextmanager
def _progress(doing: str, total: int, advice: str) -> Iterator[Progress]:
    """Yield a function to call with the number of jobs done. `advice` is added to an error of the queue."""
    from longshore.ui.progress import counting

    try:
        with counting(lambda done: f"{doing}: {done:,} of {total:,} jobs", f"{doing}…") as progress:
            yield progress
    except QueueError as error:
        raise type(error)(f"{error} {advice}") from error


def _shown(settings: Settings) -> str:
    from longshore.url import mask_url

    return mask_url(settings.queue)


def _are(number: int, one: str = "is", many: str = "are") -> str:
    return f"{number:,} {one if number == 1 else many}"
