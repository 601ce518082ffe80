"""What workers tell their supervisor: how they stand, one JSON object a line, on their standard output.

The queue is not asked, so that a fleet can be watched at no cost to it, and also while it is out of reach.
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
"""Seconds that a supervisor who is too busy to listen is waited for."""


class Reports:
    """In a worker: the line on which it tells how it stands. A `longshore.worker.status.worker_status.StatusWatcher`.

    Whatever else writes to standard output from now on writes to standard error, which is the worker's log.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._line: int | None = os.dup(1)
        os.dup2(2, 1)
        set_nonblocking(self._line)

    def __call__(self, standing: WorkerStatus) -> None:
        """Tell it. A supervisor that is too busy to listen misses it, and one that is gone is told nothing more."""
        if self._line is None:
            return
        try:
            # So short that it is written whole or not at all.
            os.write(self._line, msgspec.json.encode(standing) + b"\n")
        except BlockingIOError:
            return
        except OSError:
            os.close(self._line)
            self._line = None

    def goodbye(self) -> None:
        """Say that the worker has come to its end. Without this, its supervisor takes any end for a crash."""
        until = time.monotonic() + _PATIENCE
        while self._line is not None:
            try:
                os.write(self._line, GOODBYE + b"\n")
            except BlockingIOError:
                if (left := until - time.monotonic()) <= 0:
                    return
                select.select((), (self._line,), (), left)
            except OSError:
                return
            else:
                return


def read_report(line: bytes) -> WorkerStatus | None:
    """What a worker told; None where the line is none of its reports."""
    try:
        return msgspec.json.decode(line, type=WorkerStatus)
    except msgspec.DecodeError:
        return None
