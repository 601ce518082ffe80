"""`longshore reparse`: run the handlers again on the pages that were kept."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from longshore.cli import options
from longshore.cli.options import meaning

if TYPE_CHECKING:
    from longshore.extensions.traces import TraceKeeper
    from longshore.handlers.handler import Handler
    from longshore.runs.records.kept_pages import KeptPages
    from longshore.runs.records.reparse import ReparseResult
    from longshore.scrape.browser.find_browser import Kind
    from longshore.scrape.records import RecordSink
    from longshore.settings import Settings


def reparse(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The Python file with the handlers.", show_default=False)
    ],
    data_folder: Annotated[
        str | None, typer.Option(metavar="DIR", help=meaning("data_folder"), show_default=False)
    ] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Run the handlers of FILE again on the kept pages of RUN. Nothing is fetched.

    Failed jobs that pass now become completed, with their result, records and follow-on jobs; jobs that still fail
    stay as they are. Completed jobs keep their result, and their records are replaced by those of the new parse. Stop
    the run's workers first. The exit code is 1 if a job still fails.
    """
    from longshore.handlers.load import handler_version, load_handlers
    from longshore.observe.logs import configure
    from longshore.settings import export_dotenv, resolve
    from longshore.ui.output import write_json

    settings = resolve({"data_folder": data_folder, "queue": queue, "debug": debug})
    export_dotenv()
    configure(format=settings.log_format, level="debug" if settings.debug else "info")  # type: ignore[arg-type]
    handlers = load_handlers(file)
    # Standard output is for the summary, so what handlers print goes to standard error.
    with redirect_stdout(sys.stderr):
        done = asyncio.run(_reparse(settings, run, handlers, handler_version(file)))
    if json:
        write_json(done)
    else:
        _print(done)
    return 1 if done.still_failing or done.left_alone else 0


async def _reparse(settings: Settings, run: str, handlers: dict[str, Handler], version: str) -> ReparseResult:
    from longshore.extensions.find import find
    from longshore.extensions.traces import KeepsTraces
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.runs.records.reparse import reparse as reparse_run
    from longshore.scrape.browser.offline import OfflineBrowsers

    async with open_existing(settings) as queue:
        await counts_of(queue, run, settings)
        extension = find(queue, KeepsTraces)
        keeper = None if extension is None else await extension.traces()
        pages = _pages(settings, keeper)
        records, revised = await _sinks(settings, keeper)
        # It listens on a port, so it is made when nothing can refuse any more.
        browsers = OfflineBrowsers(cast("Kind", settings.browser))
        try:
            return await reparse_run(
                queue, run, handlers, pages, records, revised, browsers, lease=settings.lease, version=version
            )
        finally:
            await browsers.close()
            await records.close()
            await revised.close()


def _pages(settings: Settings, keeper: TraceKeeper | None) -> KeptPages:
    from longshore.errors import NotFoundError
    from longshore.runs.records.kept_pages import PagesAtServer, PagesInFolder
    from longshore.scrape.capture.page_store import PageStore

    if keeper is not None:
        return PagesAtServer(keeper)
    folder = Path(settings.data_folder) / "pages"
    if not folder.is_dir():
        raise NotFoundError(f"No pages are kept in {folder}. They are where keep_pages is set while the run goes on.")
    return PagesInFolder(PageStore(folder))


async def _sinks(settings: Settings, keeper: TraceKeeper | None) -> tuple[RecordSink, RecordSink]:
    """Return the sink for new records, and the sink for records that replace others."""
    from longshore.lease import WorkerId
    from longshore.media import open_records
    from longshore.scrape.records import RecordWriter, SegmentSink, next_revision

    if settings.records_database is not None:
        store = await open_records(settings.records_database)
        return store, await store.revising()
    if keeper is not None:
        return keeper.new_records(), keeper.new_records(revising=True)
    worker, kept = WorkerId.new("reparse").incarnation, Path(settings.data_folder) / "records"
    revision = next_revision(kept)
    return SegmentSink(RecordWriter(kept, worker)), SegmentSink(RecordWriter(kept, worker, revision=revision))


def _print(done: ReparseResult) -> None:
    from longshore.ui.output import write
    from longshore.ui.words import counted, one_line

    lines = [
        (done.repaired, "repaired: failed before, completed now"),
        (done.still_failing, "still failing"),
        (done.refreshed, "parsed again: completed before, with the records of the new parse"),
        (done.left_alone, "completed before, and failing on the new parse: left as they are"),
        (done.without_pages, "without a page that was kept: left as they are"),
        (done.not_now, "whose handler asked to be called later: left as they are"),
        (done.taken, "pending again, but taken by another worker before they could be settled here"),
    ]
    for number, what in lines:
        if number:
            write(f"{number:>9,}  {what}")
    if not any(number for number, _ in lines):
        write("There is no failed or completed job of a kind that this file handles.")
    if done.reasons:
        write("Why those that fail do:")
    for reason, number in done.reasons.items():
        write(f"{number:>9,}  {one_line(reason, 150)}")
    follow_ons = f", {counted(done.follow_ons, 'new job')} to come" if done.follow_ons else ""
    write(f"{counted(done.records, 'record')}{follow_ons}. No request was made.")
