"""`longshore stop`: stop the fleet of this folder, from another terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from longshore.fleet.supervise.control import FleetControl, Running

_LOOK_SECONDS = 0.2


def stop(
    now: Annotated[
        bool, typer.Option("--now", metavar="", help="Do not wait for the jobs in flight: give them back and leave.")
    ] = False,
) -> int:
    """Stop the fleet that was started in this folder: it finishes its jobs in flight, and has ended when this returns.

    Ctrl-C here only ends the waiting; the fleet still stops.
    """
    from longshore.fleet.supervise.control import FleetControl
    from longshore.fleet.supervise.supervisor import Stop
    from longshore.ui.output import note, write
    from longshore.ui.words import counted

    control = FleetControl()
    fleet = control.read()
    alive = control.alive()
    if fleet is None and not alive:
        note("longshore: No fleet runs in this folder. Go to where `longshore fleet` was started.")
        return 1
    if fleet is not None and not alive:
        note(
            f"longshore: No fleet runs in this folder: process {fleet.pid} is gone and did not say goodbye.\n"
            "Its workers notice and stop by themselves; nothing is lost."
        )
        return 1
    control.request(Stop.RELEASE if now else Stop.DRAIN)
    how = "giving back what is under way" if now else "finishing what is under way"
    # The file that describes the fleet may have been removed.
    which = "" if fleet is None else f" of {counted(fleet.workers, 'worker')} (process {fleet.pid})"
    write(f"Stopping the fleet{which}: {how}.")
    if not now:
        note("Once more with --now gives it back instead.")
    _wait(control, fleet)
    write("It is over. logs/fleet.log says how it went.")
    return 0


def _wait(control: FleetControl, fleet: Running | None) -> None:
    """Wait until that fleet has ended; another one may have started by then."""
    import threading

    pause = threading.Event()
    while control.alive() and control.read() in (fleet, None):
        pause.wait(_LOOK_SECONDS)
