"""`longshore collect`: append results to files in a folder as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.errors import PassingQueueError
    from longshore.extensions.archive import Month
    from longshore.runs.collect.collector import ArchiveBounds, Collector, PassResult
    from longshore.settings import Settings


def collect(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="The ids of the runs.", show_default=False)],
    into: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder; a run's results are in RUN.jsonl there.")
    ] = Path("collected"),
    follow: Annotated[
        bool, typer.Option("--follow", "-f", metavar="", help="Go on until all of the runs are finished.")
    ] = False,
    archive_age: Annotated[
        str,
        typer.Option(metavar="AGE", help="Archive completed jobs of these runs that were settled this long ago."),
    ] = "30d",
    archive_number: Annotated[
        int,
        typer.Option(metavar="N", help="Archive all of them once more than N completed jobs are not archived."),
    ] = 10_000,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Append the new results of the runs to files, each result once, even if the command is killed and repeated.

    A collected file may be moved away: the next results go into a new one. If the queue has an archive (git), completed
    jobs beyond the bounds are moved to it; they are still counted, listed and collected.
    """
    from longshore.runs.collect.collector import ArchiveBounds
    from longshore.settings import resolve
    from longshore.ui.output import write_json

    settings = resolve({"queue": queue, "debug": debug})
    age = options.age(archive_age, "--archive-age")
    assert age is not None  # noqa: S101  for the type checker: only an absent option gives None
    if archive_number < 0:
        raise UsageError(f"--archive-number cannot be {archive_number}: it takes a number of jobs, from 0 up.")
    view = _View()
    asyncio.run(
        _collect(
            settings, tuple(dict.fromkeys(runs)), into, view, ArchiveBounds(age=age, number=archive_number), follow
        )
    )
    if json:
        write_json(view.facts())
    else:
        view.show()


class _View:
    """The results of the command, as a table and as JSON."""

    def __init__(self) -> None:
        self.collectors: list[Collector] = []
        self.months: list[Month] | None = None
        self._last: dict[str, PassResult] = {}
        self._new: dict[str, int] = {}
        self._packed = 0

    def passed(self, passed: Sequence[PassResult], packed: int) -> None:
        from longshore.ui.output import note

        follows = bool(self._last)
        for each in passed:
            self._last[each.run] = each
            self._new[each.run] = self._new.get(each.run, 0) + each.new
            if follows and each.new:
                note(f"{each.run}: {each.new:,} new, {each.count.remaining:,} to come")
        self._packed += packed

    def unavailable(self, error: PassingQueueError) -> None:
        from longshore.system.printable import printable
        from longshore.ui.output import note

        note(f"{printable(str(error))} Trying again.")

    def facts(self) -> dict[str, Any]:
        runs = [
            {
                "run": last.run,
                "new": self._new[last.run],
                "collected": collector.lines,
                "file": str(collector.file),
                "failed": last.count.failed,
                "remaining": last.count.remaining,
            }
            for collector, last in zip(self.collectors, self._last.values(), strict=True)
        ]
        return {"runs": runs} if self.months is None else {"runs": runs, "archive": self._archive(self.months)}

    def _archive(self, months: list[Month]) -> dict[str, int]:
        sums = {name: sum(getattr(month, name) for month in months) for name in ("jobs", "files", "size")}
        return {"packed": self._packed, **sums}

    def show(self) -> None:
        from longshore.ui.output import write
        from longshore.ui.tables import write_table
        from longshore.ui.words import counted, size_words

        names, numbers = ("run", "file"), ("new", "collected", "failed", "remaining")
        rows = [(*(f"{run[name]:,}" for name in numbers), run["run"], run["file"]) for run in self.facts()["runs"]]
        write_table((*numbers, *names), rows, right=numbers, cut=("file",))
        if self.months is not None:
            archive = self._archive(self.months)
            packed = f"{counted(archive['packed'], 'job')} packed now; " if archive["packed"] else ""
            size = f"{size_words(archive['size'])} in {counted(archive['files'], 'file')}"
            write(f"archive: {packed}{counted(archive['jobs'], 'job')}, {size}")


async def _collect(
    settings: Settings, runs: tuple[str, ...], into: Path, view: _View, bounds: ArchiveBounds, follows: bool
) -> None:
    from longshore.clock import SystemClock
    from longshore.extensions.archive import Archives
    from longshore.extensions.find import find
    from longshore.runs.collect.collected_file import CollectedFile
    from longshore.runs.collect.collector import Archivist, Collector, collect_once, follow
    from longshore.runs.open_queue import counts_of, open_existing

    clock = SystemClock()
    async with open_existing(settings) as queue:
        for run in runs:
            await counts_of(queue, run, settings)
        archive = find(queue, Archives)
        archivist = None if archive is None else Archivist(queue, archive, runs, bounds, clock)
        with ExitStack() as opened:
            view.collectors = [Collector(queue, run, opened.enter_context(CollectedFile(into, run))) for run in runs]
            if follows:
                await follow(view.collectors, archivist, view, clock=clock, every=settings.poll)
            else:
                await collect_once(view.collectors, archivist, view)
        if archivist is not None:
            view.months = await archivist.archived()
