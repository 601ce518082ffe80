"""`longshore submit`: put jobs into the queue."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.runs.sources import Source
    from longshore.runs.submit.shared_urls import Identities
    from longshore.runs.submit.submission import Submission
    from longshore.settings import Settings
    from longshore.wrappers.growth_limits import GrowthLimits


def submit(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Which handler the jobs are for.", show_default=False)],
    urls_file: options.UrlsFile = None,
    jobs_file: options.JobsFile = None,
    csv: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A CSV file whose first line names the columns, one job a line; - is standard input.",
            show_default=False,
        ),
    ] = None,
    scan: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="A folder: one job for each file in it.", show_default=False)
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            metavar="DATABASE",
            help="An SQLite file or a postgresql:// URL: one job for each row that --query finds.",
            show_default=False,
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="With --csv or --sql: the job's URL, with columns in braces, as in https://a.org/{city}.",
            show_default=False,
        ),
    ] = None,
    glob: Annotated[
        str | None,
        typer.Option(metavar="G", help="With --scan: only these files, as in '**/*.xml'.", show_default=False),
    ] = None,
    year: Annotated[
        int | None,
        typer.Option(metavar="Y", help="With --scan: only files of this year, by their names.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="With --scan: only the first N files.", show_default=False)
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="Q", help="With --sql: what to select; parameters as :name.", show_default=False),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="With --sql: the value of a parameter. Several may be given.", show_default=False
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="The run to add to. Left out, a new one.", show_default=False)
    ] = None,
    priority: Annotated[int, typer.Option(metavar="N", help="Lower is worked on first.")] = 0,
    partition: Annotated[
        str,
        typer.Option(
            metavar="P",
            help="The slice of the run they belong to. With --csv or --sql it may hold columns, as in {state}.",
            show_default=False,
        ),
    ] = "",
    identity: Annotated[
        str | None,
        typer.Option(
            metavar="F,…",
            help="The payload fields that make jobs different. Left out, the URL, or all fields of a job without one.",
            show_default=False,
        ),
    ] = None,
    max_depth: options.MaxDepth = None,
    max_jobs: options.MaxJobs = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", metavar="", help="Then watch the run until it ends, as 'longshore wait' does."),
    ] = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Put jobs into the queue, and print JSON: run_id, submitted, duplicates.

    Submitting again is harmless: jobs that the run has already are counted as duplicates. A file whose jobs share a URL
    and differ in the rest is refused unless --identity says which fields count. In a JSONL file a line is the
    payload itself, or {"payload": {…}} with any of key, priority, partition and not_before beside it. With --wait the
    exit code says how the run ended; Ctrl-C stops watching, and the run goes on.
    """
    from longshore.runs.local.growth import growth_limits
    from longshore.runs.submit.shared_urls import by_option
    from longshore.runs.submit.submission import check_file, check_run_id
    from longshore.settings import resolve
    from longshore.ui.output import write_json
    from longshore.ui.progress import submitting
    from longshore.ui.submission_words import note_differing, submission_json

    limits = growth_limits(max_depth, max_jobs)
    settings = resolve({"queue": queue, "debug": debug})
    source = _SourceOptions(
        urls_file, jobs_file, csv, scan, sql, template, glob, year, limit, query, param or ()
    ).source(partition)
    if not kind.strip():
        raise UsageError("The kind is empty. Name the handler the jobs are for.")
    options.priority(priority)
    if run is not None:
        check_run_id(run)
    identities = options.identities(kind, identity)
    with submitting(source):
        check_file(source, kind, identities, by_option)
    done = asyncio.run(_submit(settings, source, run, limits, kind, priority, partition, identities))
    write_json(submission_json(done))
    note_differing(done)
    if not wait:
        return 0
    from longshore.cli.verbs.work.wait import waited

    # The reader of a pipe gets the id while the run goes on.
    sys.stdout.flush()
    return asyncio.run(waited(settings, done.run_id))


async def _submit(
    settings: Settings,
    source: Source,
    run: str | None,
    limits: GrowthLimits | None,
    kind: str,
    priority: int,
    partition: str,
    identities: Identities,
) -> Submission:
    from longshore.clock import SystemClock
    from longshore.runs.open_queue import open_or_create
    from longshore.runs.submit.submission import SubmissionPlan, new_run_id, submit_file
    from longshore.ui.progress import submitting

    async with open_or_create(settings) as queue:
        run_id = run or await new_run_id(queue, SystemClock())
        if limits is not None:
            # Before the first job: a worker may claim it at once.
            from longshore.runs.control.growth_limits import set_limits

            await set_limits(queue, run_id, limits)
        plan = SubmissionPlan(run=run_id, kind=kind, priority=priority, partition=partition, identities=identities)
        with submitting(source) as progress:
            return await submit_file(queue, source, plan, progress=progress)


@dataclass(frozen=True)
class _SourceOptions:
    """The options that name the source of the jobs."""

    urls_file: str | None
    jobs_file: str | None
    csv: str | None
    scan: str | None
    sql: str | None
    template: str | None
    glob: str | None
    year: int | None
    limit: int | None
    query: str | None
    param: Sequence[str]

    def source(self, partition: str) -> Source:
        """Return the source. Raise `UsageError` for none, for several, or for an option of another source."""
        from longshore.cli.input_file import input_file, note_if_terminal
        from longshore.runs.sources import CsvFile, Scan, Shape, SqlQuery

        named = {
            "--urls-file": self.urls_file,
            "--jobs-file": self.jobs_file,
            "--csv": self.csv,
            "--scan": self.scan,
            "--sql": self.sql,
        }
        given = [flag for flag, value in named.items() if value is not None]
        if len(given) != 1:
            raise UsageError(
                "Say where the jobs are, with one of them: --urls-file FILE or --jobs-file FILE (- is standard "
                "input), --csv FILE, --scan FOLDER or --sql DATABASE."
            )
        self._refuse_strays(given[0])
        shape = Shape(url=self.template, partition=partition or None)
        if self.csv is not None:
            note_if_terminal(self.csv)
            return CsvFile(self.csv, shape)
        if self.scan is not None:
            return Scan(self.scan, glob="**" if self.glob is None else self.glob, year=self.year, limit=self.limit)
        if self.sql is not None:
            if self.query is None:
                raise UsageError("--sql needs --query: what to select, one job a row.")
            return SqlQuery(self.sql, self.query, _parameters(self.param), shape)
        return input_file(self.urls_file, self.jobs_file)

    def _refuse_strays(self, source: str) -> None:
        belongs: Mapping[str, tuple[object, tuple[str, ...]]] = {
            "--template": (self.template, ("--csv", "--sql")),
            "--glob": (self.glob, ("--scan",)),
            "--year": (self.year, ("--scan",)),
            "--limit": (self.limit, ("--scan",)),
            "--query": (self.query, ("--sql",)),
            "--param": (self.param or None, ("--sql",)),
        }
        for flag, (value, whose) in belongs.items():
            if value is not None and source not in whose:
                raise UsageError(f"{flag} belongs to {' or '.join(whose)}, and the jobs come from {source}.")


def _parameters(given: Sequence[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in given]
    for name, sign, _ in pairs:
        if not sign or not name.strip():
            raise UsageError(f"--param cannot be '{name}': write NAME=VALUE.")
    return {name.strip(): value for name, _, value in pairs}
