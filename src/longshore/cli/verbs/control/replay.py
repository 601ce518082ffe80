"""`longshore replay`: run a kept failure again, offline."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.handlers.handler import Handler
    from longshore.handlers.offline_run import OfflineAttempt
    from longshore.scrape.browser.find_browser import Kind
    from longshore.scrape.capture.exchange import Exchange
    from longshore.scrape.capture.failure_bundles import FailureBundle
    from longshore.settings import Settings


def replay(
    bundle: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE", help="A failure bundle: a folder in .longshore/bundles, or its name at a server."
        ),
    ],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The Python file with the handlers.", show_default=False)
    ],
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Run the handler again on a kept failure, and say whether it still fails. Nothing is fetched.

    Every request gets the recorded response; a request without one is refused. The exit code is 0 if the handler passes
    now, and 1 if it fails.
    """
    from longshore.handlers.load import load_handlers
    from longshore.observe.logs import configure
    from longshore.runs.local.choose_handler import check_kinds
    from longshore.settings import export_dotenv, resolve
    from longshore.ui.output import write_json

    settings = resolve({"queue": queue, "debug": debug})
    kept, exchanges = asyncio.run(_read(settings, bundle, is_name=len(bundle.parts) == 1 and not bundle.exists()))
    export_dotenv()
    configure(format=settings.log_format, level="debug" if settings.debug else "info")  # type: ignore[arg-type]
    handlers = load_handlers(file)
    check_kinds(frozenset({kept.job.kind}), frozenset(handlers), file)
    # Standard output is for the result, so what the handler prints goes to standard error.
    with redirect_stdout(sys.stderr):
        attempt = asyncio.run(_attempt(settings, handlers[kept.job.kind], bundle.name, kept, exchanges))
    if json:
        write_json(_whole(kept, attempt))
    else:
        _print(bundle, kept, attempt)
    return 0 if attempt.signature is None else 1


async def _attempt(
    settings: Settings, handler: Handler, name: str, kept: FailureBundle, exchanges: list[Exchange]
) -> OfflineAttempt:
    from longshore.handlers.offline_run import run_offline
    from longshore.scrape.browser.offline import OfflineBrowsers

    browsers = OfflineBrowsers(cast("Kind", settings.browser))
    try:
        return await run_offline(handler, kept.job, exchanges, f"bundle {name}", kept.failure, browsers)
    finally:
        await browsers.close()


async def _read(settings: Settings, bundle: Path, *, is_name: bool) -> tuple[FailureBundle, list[Exchange]]:
    """Return a bundle in a folder, or with this name at the server of the queue."""
    from longshore.extensions.find import find
    from longshore.extensions.traces import KeepsTraces
    from longshore.media import exists, open_queue
    from longshore.scrape.capture.failure_bundles import read_bundle, sent_bundle

    if is_name and await exists(settings.queue):
        queue = await open_queue(settings.queue)
        try:
            if (extension := find(queue, KeepsTraces)) is not None:
                return sent_bundle(await (await extension.traces()).bundle(bundle.name))
        finally:
            await queue.close()
    return read_bundle(bundle)


def reproduced(kept: FailureBundle, attempt: OfflineAttempt) -> bool:
    """Return whether it is the same failure. Its line may differ: the file may have been edited."""
    then, now = kept.signature, attempt.signature
    return now is not None and (now.error, now.file, now.function) == (then.error, then.file, then.function)


def _whole(kept: FailureBundle, attempt: OfflineAttempt) -> dict[str, Any]:
    from longshore.handlers.offline_run import failure_of

    return {
        "passes": attempt.signature is None,
        "reproduced": reproduced(kept, attempt),
        "then": {"failure": kept.failure, "signature": kept.signature},
        "now": {"failure": failure_of(attempt), "signature": attempt.signature},
        "records": 0 if attempt.emitted is None else len(attempt.emitted.records),
    }


def _print(bundle: Path, kept: FailureBundle, attempt: OfflineAttempt) -> None:
    from longshore.cli.verbs.inspect.show import SHOWN_LINES
    from longshore.handlers.offline_run import failure_of
    from longshore.observe.failure_fields import own_frames_first
    from longshore.outcome import Snoozed
    from longshore.runs.watch.failures import subject
    from longshore.system.printable import printable
    from longshore.ui.output import write
    from longshore.ui.words import counted, moment, one_line

    failure = failure_of(attempt)
    facts = [
        ("bundle", bundle.name),
        ("job", f"{kept.job.kind} {subject(kept.job)}"),
        ("kept", f"{moment(kept.at)}, {counted(len(kept.exchanges), 'answer')}"),
        ("then", _failure_words(kept.failure.message, kept)),
    ]
    if failure is not None:
        facts.append(("now", _failure_words(failure.message, attempt)))
    elif isinstance(attempt.outcome, Snoozed):
        facts.append(("now", f"not now: again after {attempt.outcome.delay.total_seconds():g} s"))
    else:
        records = 0 if attempt.emitted is None else len(attempt.emitted.records)
        facts.append(("now", f"completed, with {counted(records, 'record')}" if records else "completed"))
    for name, value in facts:
        write(f"{name:<7} {printable(one_line(value))}")
    if failure is not None and failure.traceback:
        write("\n".join(f"  {line}" for line in own_frames_first(failure.traceback).splitlines()[-SHOWN_LINES:]))
    write("")
    if failure is None:
        write(
            "It passes now. `longshore reparse` repairs a run whose pages were kept; `longshore retry` fetches again."
        )
    elif reproduced(kept, attempt):
        write("The failure is reproduced.")
    else:
        write("It still fails, but differently.")
    if failure is not None and kept.masked:
        write("Secrets in the job's payload are masked in the bundle: the handler was given *** in their place.")
    if failure is not None and kept.dropped:
        write(f"{counted(kept.dropped, 'earlier answer')} did not fit into the bundle.")


def _failure_words(message: str, failed: FailureBundle | OfflineAttempt) -> str:
    from longshore.errors import short_name

    signature = failed.signature
    return message if signature is None else f"{short_name(signature.error)}: {message} ({signature.place})"
