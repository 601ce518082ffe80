"""The child process that runs plain (not async) handlers, one job after another, until its pipe ends.

    python -m longshore.worker.children.child_main PARENT_PID LEVEL HANDLER_FILE

Frames come on standard input and go to standard output (see `wire`); the handler can reach neither of them.
The handler's prints go to standard error, which the parent reads line by line into its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import BinaryIO

import structlog

from longshore.errors import CrashedError, HandlerFileError, LongshoreError
from longshore.handlers.class_handler import connect
from longshore.handlers.handler import Handler
from longshore.handlers.kit import SyncKit
from longshore.handlers.load import load_handlers
from longshore.handlers.result import outcome_of, outcome_of_error
from longshore.job import Job
from longshore.observe.logs import configure_relay, enter_job
from longshore.outcome import Outcome
from longshore.system.descriptors import set_binary
from longshore.system.processes import die_with_parent
from longshore.worker.children.rpc_client import RpcClient
from longshore.worker.children.wire import (
    HEAD,
    BrokenHandlerFile,
    ChildReply,
    FromChild,
    LogLine,
    Ready,
    RunJob,
    Setup,
    done,
    length_in,
    pack,
    read_from_parent,
)
from longshore.worker.kit.child_tools import ChildTools


def main(arguments: list[str]) -> int:
    """Serve until the parent closes the pipe."""
    parent, level, handler_file = int(arguments[0]), arguments[1], Path(arguments[2])
    # Ctrl-C in a terminal is for the worker, which decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # On Linux; elsewhere the guardian kills this process, or the pipe ends.
    die_with_parent(parent)
    inbox, outbox = _take_pipes()
    send = _Sender(outbox)
    configure_relay(lambda entry: send(LogLine(entry)), level=level)
    # Last, so that it hides no other module: handlers started from their project's folder may import from it.
    sys.path.append(str(Path.cwd()))
    client = RpcClient(send)
    frames = _Frames(inbox, client)
    setup = frames.next()
    if not isinstance(setup, Setup):
        return 0
    try:
        handlers = load_handlers(handler_file, setup.content)
    except HandlerFileError as error:
        send(BrokenHandlerFile(str(error)))
        return error.exit_code
    connect(handlers.values(), "", setup.label)
    tools = ChildTools(setup.tools, client)
    log = structlog.get_logger()
    send(Ready())
    while isinstance(frame := frames.next(), RunJob):
        job, handler = frame.job, handlers[frame.job.kind]
        started = time.monotonic()
        enter_job(job)
        kit = SyncKit(log, tools, job, handler, started + handler.timeout.total_seconds())
        outcome, raised = _attempt(handler, job, kit)
        emitted = tools.finish(kit, outcome, raised)
        tools.tell_recycled()
        with contextlib.suppress(OSError, ValueError):  # a handler may have closed its own standard output
            sys.stdout.flush()
        send(done(outcome, time.monotonic() - started, emitted))
    return 0


def _attempt(handler: Handler, job: Job, kit: SyncKit) -> tuple[Outcome, BaseException | None]:
    """Return the outcome, and the exception that the handler raised."""
    try:
        value = handler.invoke(job, kit)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        return outcome_of(handler, job, value), None
    except SystemExit as error:
        return outcome_of_error(handler, job, CrashedError(f"the handler called sys.exit({error.code!r})")), error
    except BaseException as error:  # noqa: BLE001  anything a handler raises is its outcome
        return outcome_of_error(handler, job, error), error


async def _awaited(value: Awaitable[object]) -> object:
    return await value


class _Frames:
    """The frames from the worker. A thread reads them, because replies come while a handler runs."""

    def __init__(self, inbox: BinaryIO, client: RpcClient) -> None:
        self._inbox = inbox
        self._client = client
        self._waiting: queue.SimpleQueue[Setup | RunJob | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="longshore-frames", daemon=True).start()

    def next(self) -> Setup | RunJob | None:
        """Return the next frame that is not a reply; None at the end of the pipe."""
        return self._waiting.get()

    def _read(self) -> None:
        while head := self._inbox.read(HEAD):
            frame = read_from_parent(self._inbox.read(length_in(head)))
            if isinstance(frame, ChildReply):
                self._client.replied(frame)
            else:
                self._waiting.put(frame)
        self._waiting.put(None)


class _Sender:
    """Writes frames whole, from any thread."""

    def __init__(self, outbox: BinaryIO) -> None:
        self._outbox = outbox
        self._lock = threading.Lock()

    def __call__(self, frame: FromChild) -> None:
        with self._lock:
            self._outbox.write(pack(frame))
            self._outbox.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes to the parent, and give the handler an empty standard input and the log as standard output.

    Processes that the handler starts do not inherit the returned pipes, so the parent sees the pipe end when this
    process ends.
    """
    inbox = os.fdopen(os.dup(0), "rb")
    outbox = os.fdopen(os.dup(1), "wb")
    set_binary(inbox.fileno())
    set_binary(outbox.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return inbox, outbox


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except (BrokenPipeError, LongshoreError):
        code = 1
    # At once: threads that a handler left running must not keep the process.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
