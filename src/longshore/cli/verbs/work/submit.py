"""`longshore submit`: put jobs into the queue."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.runs.sources import Source
    from longshore.runs.sources.product import Dimension
    from longshore.settings import Settings


def submit(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Which handler the jobs are for.", show_default=False)],
    url: options.Url = None,
    sitemap: options.SitemapOption = None,
    since: options.Since = None,
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
    product: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V,…",
            help="A job for every combination of the values of each NAME. NAME=@FILE takes them from a file, one a "
            "line; from a .json file, a list, or lists by the value of the NAME before.",
            show_default=False,
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="With --csv, --sql or --product: the job's URL, with columns in braces, as in https://a.org/{city}.",
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
            help="The slice of the run they belong to. With --csv, --sql or --product: also {state}, its value.",
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
    pin: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Only this version of the published handlers works on the run, whatever is published later.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", metavar="", help="Then watch the run until it ends, as 'longshore wait' does."),
    ] = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Put jobs into the queue, and print JSON: run_id, submitted, duplicates.

    Submitting again is harmless: jobs that the run has already are counted as duplicates. The same --scan again joins
    the run that it made; --run starts another. A file whose jobs share a URL and differ in the rest is refused unless
    --identity says which fields count. In a JSONL file a line is the
    payload itself, or {"payload": {…}} with any of key, priority, partition and not_before beside it. With --wait the
    exit code says how the run ended; Ctrl-C stops watching, and the run goes on.
    """
    from longshore.runs.local.growth_options import growth_limits
    from longshore.runs.submit.submit_run import RunAddition, submit_run
    from longshore.settings import resolve
    from longshore.ui.output import write_json
    from longshore.ui.progress import submitting
    from longshore.ui.submission_words import note_differing, note_left_out, submission_json

    limits = growth_limits(max_depth, max_jobs)
    settings = resolve({"queue": queue, "debug": debug})
    source = _SourceOptions(
        url=url or (),
        sitemap=sitemap,
        since=since,
        urls_file=urls_file,
        jobs_file=jobs_file,
        csv=csv,
        scan=scan,
        sql=sql,
        template=template,
        glob=glob,
        year=year,
        limit=limit,
        query=query,
        param=param or (),
        product=product or (),
    ).source(partition, settings)
    options.priority(priority)
    to = RunAddition(kind, run, priority, partition, options.identities(kind, identity), limits, pin)
    with submitting(source):
        to.check(source)
    with submitting(source) as progress:
        done = asyncio.run(submit_run(settings, source, to, progress))
    write_json(submission_json(done))
    note_differing(done)
    note_left_out(source)
    if not wait:
        return 0
    from longshore.cli.verbs.work.wait import waited

    # The reader of a pipe gets the id while the run goes on.
    sys.stdout.flush()
    return asyncio.run(waited(settings, done.run_id))


@dataclass(frozen=True)
class _SourceOptions:
    """The options that name the source of the jobs."""

    url: Sequence[str]
    sitemap: str | None
    since: str | None
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
    product: Sequence[str]

    def source(self, partition: str, settings: Settings) -> Source:
        """Return the source. Raise `UsageError` for none, for several, or for an option of another source."""
        from longshore.cli.input_file import named_jobs, note_if_terminal
        from longshore.runs.sources import CsvFile, Product, Scan, Shape, SqlQuery

        named = {
            "--url": self.url or None,
            "--sitemap": self.sitemap,
            "--urls-file": self.urls_file,
            "--jobs-file": self.jobs_file,
            "--csv": self.csv,
            "--scan": self.scan,
            "--sql": self.sql,
            "--product": self.product or None,
        }
        given = [flag for flag, value in named.items() if value is not None]
        if len(given) != 1:
            raise UsageError(
                "Say where the jobs are, with one of them: --url URL, --sitemap URL, --urls-file FILE or --jobs-file "
                "FILE (- is standard input), --csv FILE, --scan FOLDER, --sql DATABASE or --product NAME=V,…."
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
        if self.product:
            return Product(_dimensions(self.product), shape)
        return named_jobs(settings, self.url, self.sitemap, self.since, self.urls_file, self.jobs_file)

    def _refuse_strays(self, source: str) -> None:
        belongs: Mapping[str, tuple[object, tuple[str, ...]]] = {
            "--since": (self.since, ("--sitemap",)),
            "--template": (self.template, ("--csv", "--sql", "--product")),
            "--glob": (self.glob, ("--scan",)),
            "--year": (self.year, ("--scan",)),
            "--limit": (self.limit, ("--scan",)),
            "--query": (self.query, ("--sql",)),
            "--param": (self.param or None, ("--sql",)),
        }
        for flag, (value, whose) in belongs.items():
            if value is not None and source not in whose:
                raise UsageError(f"{flag} belongs to {' or '.join(whose)}, and the jobs come from {source}.")


def _dimensions(given: Sequence[str]) -> dict[str, Dimension]:
    """Return the dimensions of --product. Raise `UsageError` or `InputFileError` for one that has no values."""
    found: dict[str, Dimension] = {}
    for each in given:
        name, sign, values = each.partition("=")
        if not sign or not name.strip() or name.strip() in found:
            raise UsageError(f"--product cannot be '{each}': write NAME=VALUE,VALUE or NAME=@FILE, each NAME once.")
        listed = [value.strip() for value in values.split(",") if value.strip()]
        found[name.strip()] = _values_in(values[1:]) if values.startswith("@") else listed
    return found


def _values_in(file: str) -> Dimension:
    import msgspec

    from longshore.errors import InputFileError

    try:
        content = Path(file).read_bytes()
        if not file.endswith(".json"):
            return [line.strip() for line in content.decode("utf-8-sig").splitlines() if line.strip()]
        values: list[str] | dict[str, list[str]] = msgspec.json.decode(content, type=list[str] | dict[str, list[str]])
    except OSError as error:
        raise InputFileError(f"{file} cannot be read: {error.strerror or error}.") from error
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise InputFileError(f"{file}: {error}. It holds a list of texts, or lists by name.") from error
    return dict(values) if isinstance(values, dict) else values


def _parameters(given: Sequence[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in given]
    for name, sign, _ in pairs:
        if not sign or not name.strip():
            raise UsageError(f"--param cannot be '{name}': write NAME=VALUE.")
    return {name.strip(): value for name, _, value in pairs}
