"""Work with the code of the queue: ask once, run it, and take up a new version when the worker has drained."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from longshore.errors import PublishedCodeError, QueueUnavailableError
from longshore.fleet.launch.ready_code import ReadyCode
from longshore.runs.published.code_process import run_published
from longshore.runs.published.prepare import CodeRequest, Offer, ready_code
from longshore.settings import Settings
from longshore.system.backoff import Backoff
from longshore.ui.output import confirmed, note
from longshore.ui.program import program
from longshore.ui.published.words import offer_words
from longshore.worker.status.counters import Exit


def code_request(settings: Settings, run: str | None, accept: str | None, command: str) -> CodeRequest:
    """Return the request for the code of the queue, which asks at the terminal if there is one."""
    return CodeRequest(
        settings=settings,
        run=run,
        accept=accept,
        program=program(),
        command=command,
        ask=ask if sys.stdin.isatty() else None,
        say=note,
    )


def ask(offer: Offer) -> bool:
    """Show what a version is and what it may do, and return whether the person accepts it."""
    note(f"\n{offer_words(offer)}\n")
    return confirmed("Run this code here?", sys.stderr)


def work_here(request: CodeRequest, arguments: Sequence[str]) -> int:
    """Run a worker with the code of the queue until it ends; return its exit code.

    `arguments` are the options of the worker. When the queue has another version, the worker drains, and the next one
    starts if its version is accepted.
    """
    while True:
        ready = _ready(request)
        # It was meant for this version. Of the next one, the person is to hear that it is new.
        request = replace(request, accept=None)
        note(f"Running version {ready.fingerprint[:12]}. Ctrl-C finishes the jobs under way and stops.")
        end = run_published(ready, request.settings, arguments)
        if end.exit_code < 0:
            raise PublishedCodeError(
                f"The worker was ended by signal {-end.exit_code}; its jobs will be claimed again."
            )
        if end.exit_code != Exit.REPLACED:
            return end.exit_code
        if end.asked:
            return Exit.OK


def _ready(request: CodeRequest) -> ReadyCode:
    backoff, told = Backoff(1.0, 30.0), ""
    while True:
        try:
            return asyncio.run(ready_code(request))
        except QueueUnavailableError as error:
            wait, why = max(backoff.next(), 1.0), str(error).rstrip(".")
            note("Still no answer" if why == told else f"{why}. The handlers come from the queue, so nothing runs yet")
            note(f"  Trying again in {wait:.0f} s; Ctrl-C stops.")
            told = why
            time.sleep(wait)
