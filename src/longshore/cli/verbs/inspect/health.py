"""`longshore health`: say whether the workers, the fleet and the server of this folder are healthy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longshore.cli import options


def health(
    ready: Annotated[
        bool,
        typer.Option("--ready", metavar="", help="For supervisors: succeed if each can do its work, healthy or not."),
    ] = False,
    json: options.Json = False,
    profile: options.Profile = None,
) -> int:
    """Say how the workers, the fleet and the server are that were started in this folder; end in 'healthy' if all are.

    They tell it through files in the data folder, so nothing is asked of the queue. The exit code is 0 if all are
    healthy (with --ready: if all are ready), and 1 if one is not, if one hangs or was killed, or if there is none.
    """
    from longshore.observe.health import HEALTHY
    from longshore.observe.health_files import read_health
    from longshore.settings import resolve
    from longshore.ui.output import write, write_json

    folder = Path(resolve({"profile": profile}).data_folder)
    found = read_health(folder)
    sick = [each for each in found if not each.healthy]
    healthy = bool(found) and not sick
    good = bool(found) and all(each.ready for each in found) if ready else healthy
    if json:
        write_json({"status": HEALTHY if healthy else "unhealthy", "processes": found})
        return int(not good)
    for each in found:
        write(f"{each.process} (process {each.pid}): {each.detail or each.status}")
        if each.process != "fleet":
            continue
        for worker in each.workers:
            rate = f"{worker.completed:,} completed, {worker.failed:,} failed, {worker.success_rate:.0%} of attempts"
            write(f"  {worker.worker}: {worker.detail or worker.status} ({rate})")
    if not found:
        write(f"No worker, fleet or server runs with the data folder {folder.absolute()}.")
    if ready:
        write("ready" if good else "not ready")
    else:
        write(HEALTHY if healthy else "unhealthy")
    return int(not good)
