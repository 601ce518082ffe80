"""Notices about a run, a line each: pauses, growth limits, duplicates that differ, closed hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longshore.runs.estimate.estimate import HostLoad
    from longshore.runs.watch.blockers import Blockers

_NAMED = 3


def notices(held: Blockers, hosts: Sequence[HostLoad] = (), flag: str = "") -> dict[str, str]:
    """Return the lines, each under a name that stays the same while its figures change.

    `flag` is the option with which the commands in the lines find the queue.
    """
    from longshore.runs.control.pause import EVERYTHING
    from longshore.system.printable import printable
    from longshore.ui.words import counted, duration, moment
    from longshore.wrappers.differing_duplicates import advice

    lines = {}
    for name, since in held.paused.items():
        who, again = ("everything", "--all") if name == EVERYTHING else (f"run {name}", name)
        lines[f"paused {name}"] = printable(
            f"paused: {who}; to let it go on: longshore resume {again}{flag} (since {moment(since)})"
        )
    if held.left_out:
        kept = (("too deep", held.left_out.too_deep), ("too many", held.left_out.too_many))
        why = ", ".join(f"{number:,} {word}" for word, number in kept if number)
        jobs = counted(held.left_out.too_deep + held.left_out.too_many, "follow-on job")
        lines["left out"] = f"left out: {jobs} ({why}), by --max-depth and --max-jobs of the run"
    for run, differing in list(held.differing.items())[:_NAMED]:
        jobs = counted(differing.jobs, "job")
        lines[f"differing {run}"] = printable(
            f"left out as duplicates of run {run}: {jobs} with other payloads. {advice(differing)}"
        )
    if closed := sorted((load for load in hosts if load.closed_for > 0), key=lambda load: -load.closed_for):
        named = [f"{load.host} for {duration(load.closed_for)}" for load in closed[:_NAMED]]
        more = f" and {counted(len(closed) - _NAMED, 'more host')}" if len(closed) > _NAMED else ""
        lines["closed"] = printable(f"closed: {', '.join(named)}{more}; why: longshore hosts{flag}")
    return lines


def notices_json(held: Blockers) -> dict[str, Any]:
    """Return the notices for JSON, if there are any. The start of a pause is in seconds since 1970."""
    import msgspec

    paused = {"paused": held.paused} if held.paused else {}
    left_out = {"left_out": msgspec.to_builtins(held.left_out)} if held.left_out else {}
    differing = {run: msgspec.to_builtins(each.kinds) for run, each in held.differing.items()}
    return {**paused, **left_out, **({"differing_duplicates": differing} if differing else {})}
