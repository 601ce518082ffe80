"""The process that runs published code, and the process that waits for it and passes signals on.

The waiting process is the one that the person started. It has the worker's own Python and runs no code of the queue;
the other one has the Python of the version. A pipe to its standard input tells the second when to stop: each byte is
one request, and its end means that the first process is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import msgspec

from longshore.fleet.launch.ready_code import ReadyCode
from longshore.fleet.supervise.lifeline import STOP
from longshore.settings import TABLE, Settings
from longshore.system.processes import new_group_flags
from longshore.system.signals import hangup_signal, send_hangup, stop_signals

_LOOK_SECONDS = 0.2
_KILL_AFTER = 3
"""The request that kills: the first drains, the second makes the worker leave at once."""


class CodeEnd(msgspec.Struct, frozen=True):
    """The end of a process that ran published code."""

    exit_code: int
    asked: bool
    """Whether it had been asked to stop."""


def run_published(ready: ReadyCode, settings: Settings, arguments: Sequence[str]) -> CodeEnd:
    """Run a worker with published code until it ends, and return how it ended.

    Signals to this process are passed on: a worker drains at the first and leaves at the second; the third kills it.
    """
    worker = (ready.python, "-P", "-m", "longshore", "work", str(ready.file), "--published", ready.fingerprint)
    process = subprocess.Popen(  # noqa: S603  our own command
        [*worker, *arguments],
        stdin=subprocess.PIPE,
        env=_environment(settings),
        # Ctrl-C must reach this process only, which passes it on. The worker stays in the session of the terminal.
        process_group=None if sys.platform == "win32" else 0,
        creationflags=new_group_flags(),
    )
    assert process.stdin is not None  # noqa: S101  it is a pipe
    asked = 0

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked >= _KILL_AFTER:
            process.kill()
        elif process.stdin is not None:
            with suppress(OSError):
                os.write(process.stdin.fileno(), STOP)

    def hangup(_number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            send_hangup(process.pid)

    with _handling(stop, hangup), process.stdin:
        return CodeEnd(_wait(process), asked > 0)


def _wait(process: subprocess.Popen[bytes]) -> int:
    # On Windows a wait without a limit would hold back Ctrl-C.
    limit = _LOOK_SECONDS if sys.platform == "win32" else None
    while True:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def _handling(stop: signal._HANDLER, hangup: signal._HANDLER) -> Iterator[None]:
    numbers: dict[signal.Signals, signal._HANDLER] = dict.fromkeys(stop_signals(), stop)
    if (number := hangup_signal()) is not None and signal.getsignal(number) is not signal.SIG_IGN:
        numbers[number] = hangup
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _environment(settings: Settings) -> Mapping[str, str]:
    """Return the environment of the worker: the URL of the queue may hold a password, which arguments would show."""
    queue = TABLE["queue"]
    return {**os.environ, **dict.fromkeys(queue.aliases, ""), queue.variable: settings.queue, "PYTHONUTF8": "1"}
