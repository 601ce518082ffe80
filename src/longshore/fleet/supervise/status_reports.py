"""Status reports of workers to their supervisor: one JSON object per line, on the worker's standard output.

They do not use the queue, so watching a fleet costs the queue nothing and works while the queue is out of reach.
"""

from __future__ import annotations

import os
import select
import sys
import time

import msgspec

from longshore.fleet.supervise.lifeline import GOODBYE
from longshore.system.descriptors import set_nonblocking
from longshore.worker.status.worker_status import WorkerStatus

_PATIENCE = 2.0
"""Seconds to wait for a supervisor that is too busy to read."""


class Reports:
    """In a worker: writes its status to the supervisor. A `longshore.worker.status.worker_status.StatusWatcher`.

    All other output to standard output goes to standard error from now on, which is the worker's log.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._pipe: int | None = os.dup(1)
        os.dup2(2, 1)
        set_nonblocking(self._pipe)

    def __call__(self, status: WorkerStatus) -> None:
        """Write a report. Drop it if the supervisor is too busy to read; stop reporting if the supervisor is gone."""
        if self._pipe is None:
            return
        try:
            # A report is so short that the system writes all of it or nothing.
            os.write(self._pipe, msgspec.json.encode(status) + b"\n")
        except BlockingIOError:
            return
        except OSError:
            os.close(self._pipe)
            self._pipe = None

    def goodbye(self) -> None:
        """Report that the worker ends as intended. Without this, the supervisor treats its end as a crash."""
        until = time.monotonic() + _PATIENCE
        while self._pipe is not None:
            try:
                os.write(self._pipe, GOODBYE + b"\n")
            except BlockingIOError:
                if (left := until - time.monotonic()) <= 0:
                    return
                select.select((), (self._pipe,), (), left)
            except OSError:
                return
            else:
                return


def read_report(line: bytes) -> WorkerStatus | None:
    """Return the status in a line, or None if the line is not a report."""
    try:
        return msgspec.json.decode(line, type=WorkerStatus)
    except msgspec.DecodeError:
        return None
