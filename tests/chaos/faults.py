"""The faults of a trial. Each function is one step of the conductor; what it switches on, it switches off later."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from functools import partial

from tests.chaos.switches import LOST_ANSWERS, SLOW_CALLS, UNREACHABLE
from tests.chaos.trial import Live, Trial

VICTIMS = ("worker", "slow submitter", "checkout", "merger", "copier")


def kill(trial: Trial) -> None:
    """Kill a process with SIGKILL."""
    if (victim := _victim(trial, *VICTIMS)) is None:
        return
    trial.fault("SIGKILL", True, victim)
    trial.signal(victim, signal.SIGKILL)
    trial.later(1.5 * trial.main.lease, lambda: trial.fault("SIGKILL", False, victim))


def stop_past_the_lease(trial: Trial) -> None:
    """Stop a worker until others have taken its jobs, then let it go on."""
    if (victim := _victim(trial, "worker")) is None:
        return
    trial.fault("SIGSTOP past the lease", True, victim)
    trial.signal(victim, signal.SIGSTOP)

    def go_on() -> None:
        trial.signal(victim, signal.SIGCONT)
        # What it does with its lost leases is part of the fault.
        trial.later(2, lambda: trial.fault("SIGSTOP past the lease", False, victim))

    trial.later(1.6 * trial.main.lease, go_on)


def trouble_with_calls(trial: Trial) -> None:
    """Let the calls of a worker be slow, get lost, or lose their answers."""
    if (victim := _victim(trial, "worker")) is None:
        return
    fault = trial.chance.choice([SLOW_CALLS, LOST_ANSWERS, UNREACHABLE])
    trial.fault(fault, True, victim)
    trial.switches.switch(fault, victim.pid, on=True)

    def end() -> None:
        trial.switches.switch(fault, victim.pid, on=False)
        trial.fault(fault, False, victim)

    trial.later(trial.chance.uniform(1, 1.5 * trial.main.lease), end)


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

    trial.later(trial.chance.uniform(1, 4), end)


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
        trial.signal(each, signal.SIGCONT)
    trial.later(2, lambda: trial.fault(fault, False))


def trouble_of_the_medium(trial: Trial) -> None:
    """Bring about a fault that only this medium has."""
    known = trial.main.faults()
    if not known:
        return
    fault = trial.chance.choice(sorted(known))
    if fault in trial.wide_faults:
        return
    trial.fault(fault, True)
    known[fault](True)
    trial.later(trial.chance.uniform(1, 4), partial(_end, trial, fault))


def _end(trial: Trial, fault: str) -> None:
    trial.main.faults()[fault](False)
    trial.fault(fault, False)


def _victim(trial: Trial, *roles: str) -> Live | None:
    there = trial.of_role(*roles)
    return trial.chance.choice(there) if there else None


FAULTS: Mapping[Callable[[Trial], None], float] = {
    kill: 4,
    stop_past_the_lease: 2,
    trouble_with_calls: 3,
    break_the_handler_file: 1,
    set_the_clock: 1,
    suspend: 0.5,
    trouble_of_the_medium: 1.5,
}
"""The steps of misfortune, with the weight of each."""
