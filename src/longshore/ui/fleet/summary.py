"""The summary at the end of a fleet, and the console it is printed on."""

from __future__ import annotations

import os
import sys

from rich.console import Console

from longshore.fleet.launch.fleet_log import LOGS
from longshore.fleet.launch.launch import Launch
from longshore.fleet.supervise.supervisor import Phase
from longshore.queue import Count
from longshore.ui.fleet.board import FleetBoard
from longshore.ui.proxy_words import resting_proxies
from longshore.ui.words import counted, duration, rate


class FleetConsole(Console):
    """Standard output, whose reader may go away while the fleet runs (`| head`)."""

    reader_gone = False

    def on_broken_pipe(self) -> None:
        """Note that the reader is gone, and write nothing more. Rich itself would end the process."""
        self.reader_gone = True
        self.quiet = True
        # The interpreter flushes standard output once more at exit.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def closing_lines(launch: Launch, board: FleetBoard, count: Count, seconds: float) -> list[str]:
    """Return the summary of a fleet that has ended after `seconds`, with `count` in the queue."""
    # Other workers may have worked on the same run, so only the workers' own reports say what this fleet did.
    completed, failed = board.completed, board.failed
    given_up = board.phases[Phase.GIVEN_UP]
    lines = [
        f"{launch.title}: {completed:,} completed, {failed:,} failed by this fleet in {duration(seconds)}"
        + (f" ({rate((completed + failed) / seconds)})" if completed + failed else "")
        + f"; {counted(board.restarts, 'restart')}"
        + (f", {counted(given_up, 'worker')} given up" if given_up else "")
        + "."
    ]
    bad = f", {count.failed:,} of them failed" if count.failed else ""
    if count.remaining:
        held = f", {count.claimed:,} of them held" if count.claimed else ""
        lines += [
            f"  In all, {count.total - count.remaining:,} of {counted(count.total, 'job')} are done{bad}.",
            f"  {counted(count.remaining, 'job')} still to do{held}. The same command goes on from here.",
        ]
    elif count.total:
        lines.append(f"  Nothing is left to do: {counted(count.total, 'job')} in all{bad}.")
    if rest := resting_proxies(launch.settings):
        lines.append(f"  Of the proxies, {rest}: `longshore proxies` shows where and why.")
    return [*lines, f"  The logs are in {LOGS}/."]
