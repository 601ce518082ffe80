"""The faults of a trial. Each function is one step of the conductor; what it switches on, it switches off later."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import psutil
from tests.chaos.live import Live
from tests.chaos.roles import long_jobs, resume
from tests.chaos.switches import (
    FULL_DISK,
    LOST_ANSWERS,
    LOST_CLAIM,
    ODD_ROWS,
    READ_ONLY,
    SLOW_CALLS,
    STALE_LISTING,
    UNREACHABLE,
)
from tests.chaos.trial import Trial

from longshore.conformance.history.events import QueueRewound

_TRIES = 15
"""How often is looked whether a worker is in the middle of a settlement."""
_PATIENCE = 10.0
"""Seconds for what should happen within one, on a busy machine."""
_SETTLING = 3.0
"""Seconds for what workers do with jobs that a medium took from them when it was set back."""
_TAKES_MANY = ("--batch-size", "20", "--concurrency", "32")
"""Options of a worker that holds most of the long jobs at once."""
_AFTERMATH = 3.0
"""Seconds after an outage of the medium in which it counts as on."""
VICTIMS = ("worker", "submitter", "slow submitter", "checkout", "merger", "copier", "mover")


def kill(trial: Trial) -> None:
    """Kill a process with SIGKILL."""
    if (victim := _victim(trial, *VICTIMS)) is None:
        return
    trial.fault("SIGKILL", True, victim)
    trial.signal(victim, signal.SIGKILL)
    trial.later(1.5 * trial.main.lease, lambda: trial.fault("SIGKILL", False, victim))


def kill_in_a_fleet(trial: Trial) -> None:
    """Kill the supervisor of a fleet, or one of its workers."""
    if (fleet := _victim(trial, "fleet")) is None:
        return
    trial.fault("SIGKILL", True, fleet)
    with suppress(psutil.NoSuchProcess):
        members = psutil.Process(fleet.pid).children(recursive=True)
        os.kill(trial.chance.choice([fleet.pid, *(each.pid for each in members)]), signal.SIGKILL)
    trial.later(1.5 * trial.main.lease, lambda: trial.fault("SIGKILL", False, fleet))


def stop_past_the_lease(trial: Trial) -> None:
    """Stop a worker until others have taken its jobs, then let it go on; half of the time in the middle of a call."""
    going = [each for each in trial.of_role("worker") if each not in trial.stopped]
    if not going:
        return
    victim, tries = trial.chance.choice(going), iter(range(_TRIES))
    fault, in_a_call = "SIGSTOP past the lease", trial.chance.random() < 0.5
    trial.stopped.append(victim)
    trial.fault(fault, True, victim)
    trial.switches.switch(SLOW_CALLS, victim.pid, on=in_a_call)

    def stop() -> None:
        if in_a_call and not trial.settles(victim) and next(tries, None) is not None:
            trial.later(0.2, stop)
            return
        seconds = trial.chance.uniform(1.2, 1.8) * trial.main.lease
        trial.stop_for(victim, seconds)
        if all(each in trial.stopped for each in trial.of_role("worker")):
            # One that can take its jobs.
            trial.start("worker", "work", "pages.py", "--batch-size", "20")
        trial.later(seconds, go_on)

    def go_on() -> None:
        trial.switches.switch(SLOW_CALLS, victim.pid, on=False)
        # What it does with its lost leases is part of the fault.
        trial.later(2, end)

    def end() -> None:
        trial.stopped.remove(victim)
        trial.fault(fault, False, victim)

    trial.later(0.7 if in_a_call else 0, stop)


def slow_calls(trial: Trial) -> None:
    """Let the calls of a worker take longer than its lease."""
    _switch(trial, SLOW_CALLS)


def lose_calls(trial: Trial) -> None:
    """Let the answers to a worker's calls get lost, or refuse its calls for a reason that passes."""
    _switch(trial, trial.drawn([LOST_ANSWERS, UNREACHABLE, FULL_DISK, READ_ONLY]))


def lose_a_claim(trial: Trial) -> None:
    """Let the answer to the next claim of a worker get lost: it holds jobs without knowing."""
    _switch(trial, LOST_CLAIM, 1)


def show_stale_listings(trial: Trial) -> None:
    """Let a worker see folders as they were some seconds ago."""
    if trial.main.name == "directory":
        _switch(trial, STALE_LISTING)


def _switch(trial: Trial, fault: str, leases: float = 2) -> None:
    if (victim := _victim(trial, "worker")) is None:
        return
    trial.fault(fault, True, victim)
    trial.switches.switch(fault, victim.pid, on=True)

    def end() -> None:
        trial.switches.switch(fault, victim.pid, on=False)
        trial.fault(fault, False, victim)

    trial.later(trial.chance.uniform(leases, max(leases, 2) * trial.main.lease), end)


def refuse_rows(trial: Trial) -> None:
    """Let handlers emit many records that the sink refuses: only their own attempts may fail for it."""
    if not trial.refuses_rows or ODD_ROWS in trial.wide_faults:
        return
    trial.fault(ODD_ROWS, True)
    trial.switches.switch_for_all(ODD_ROWS, on=True)

    def end() -> None:
        trial.switches.switch_for_all(ODD_ROWS, on=False)
        trial.fault(ODD_ROWS, False)

    trial.later(trial.chance.uniform(2, 6), end)


def break_the_handler_file(trial: Trial) -> None:
    """Save the handler file broken, as an editor in the middle of a change does, and start a worker meanwhile."""
    fault = "handler file replaced"
    if fault in trial.wide_faults:
        return
    trial.fault(fault, True)
    (trial.folder / "pages.py").write_text("from longshore import handler\n\n@handler('page'\n")
    trial.start("worker", "work", "pages.py")

    def end() -> None:
        trial.restore_handlers()
        trial.fault(fault, False)

    trial.later(trial.chance.uniform(1, 3), end)


def set_the_clock(trial: Trial) -> None:
    """Set the time of day of the machine forward or back by an hour, and later right again."""
    fault = "clock step"
    if fault in trial.wide_faults:
        return
    trial.fault(fault, True)
    step = trial.chance.choice([3600, -3600])
    trial.clock.set(step)

    def end() -> None:
        trial.clock.set(-step)
        trial.fault(fault, False)

    trial.later(trial.chance.uniform(2, 6), end)


def suspend(trial: Trial) -> None:
    """Let the machine sleep longer than a lease: every worker on it may have lost its leases."""
    fault = "suspend"
    if fault in trial.wide_faults:
        return
    trial.fault(fault, True)
    for each in trial.live:
        trial.signal(each, signal.SIGSTOP)
    trial.clock.sleep(2 * trial.main.lease)
    for each in trial.live:
        if each not in trial.still:
            trial.signal(each, signal.SIGCONT)
    trial.later(4, lambda: trial.fault(fault, False))


def trouble_of_the_medium(trial: Trial) -> None:
    """Bring about a fault that only this medium has."""
    known = trial.faults()
    off = sorted(known.keys() - trial.wide_faults)
    if not off:
        return
    fault = trial.drawn(off)
    trial.fault(fault, True)
    known[fault](True)
    trial.later(trial.chance.uniform(1, 4), partial(_end, trial, fault))


def _end(trial: Trial, fault: str) -> None:
    trial.faults()[fault](False)
    # How everything goes on afterwards is part of the fault.
    trial.later(_AFTERMATH, partial(trial.fault, fault, False))


def set_back(trial: Trial) -> None:
    """Keep a copy of the stored queue, and put it back some seconds later, as a person restores a backup."""
    # Other trouble of the medium could be in the way of copying it.
    if "medium set back" in trial.done or trial.wide_faults & set(trial.faults()):
        return
    # Pending in the copy, and soon held by workers.
    trial.carry_out(long_jobs(trial, "main", first=True))
    with trial.at_rest():
        restore = trial.main.back_up()
    if restore is None:
        return
    trial.done.add("medium set back")
    before = trial.start("worker", "work", "pages.py", *_TAKES_MANY)

    def go_back() -> None:
        if trial.wide_faults & set(trial.faults()):
            trial.later(1, go_back)
            return
        trial.fault("medium set back", True)
        trial.notes.write(QueueRewound(queue="main", done=False))
        with trial.at_rest():
            restore()
        trial.moments.tick()
        trial.notes.write(QueueRewound(queue="main", done=True))
        # The workers stand still until a new one has claimed the same jobs with the same epochs.
        still = [each for each in trial.of_role("worker") if each not in trial.stopped]
        for each in still:
            trial.stop_for(each, _PATIENCE)
        new = trial.start("worker", "work", "pages.py", *_TAKES_MANY)
        # On git, all machines that have seen newer commits refuse the branch.
        trial.wait_for(
            lambda: trial.given_jobs(new), 0.6 * trial.main.lease if trial.main.refuses_a_backup else _PATIENCE
        )
        for each in still:
            trial.go_on(each)
        trial.later(_SETTLING, end)

    def end() -> None:
        if trial.main.refuses_a_backup:
            for each in trial.live:
                trial.signal(each, signal.SIGKILL)
            trial.main.go_on_with_the_backup(trial.machines)
        # A pause that had ended may be there again.
        resume(trial)
        # What people and workers do next is part of the fault.
        trial.later(trial.main.lease, over)

    def over() -> None:
        trial.signal(before, signal.SIGINT)
        trial.fault("medium set back", False)
        trial.done.discard("medium set back")

    trial.wait_for(lambda: trial.given_jobs(before), _PATIENCE)
    trial.later(trial.chance.uniform(0, 1), go_back)


def _victim(trial: Trial, *roles: str) -> Live | None:
    there = trial.of_role(*roles)
    return trial.chance.choice(there) if there else None


FAULTS: Mapping[Callable[[Trial], None], float] = {
    kill: 4,
    kill_in_a_fleet: 1,
    stop_past_the_lease: 2,
    slow_calls: 1.5,
    lose_calls: 2.5,
    lose_a_claim: 1.5,
    show_stale_listings: 1.5,
    break_the_handler_file: 1,
    refuse_rows: 1,
    set_the_clock: 1,
    suspend: 0.5,
    trouble_of_the_medium: 1.5,
}
"""The steps of misfortune, with the weight of each."""
