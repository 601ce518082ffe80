"""The roles of a trial: what people and programs do to a queue. Each function is one step of the conductor.

Each run has one purpose, so that what is done to one does not make the checker lenient about the others:

    main     submitted by several processes at once, also slowly
    grow     has limits
    hold     is paused, cancelled, retried and released
    again    is pruned, and submitted again
    away     is copied, and once moved
    out      is worked on in offline checkouts
    parse    fetches pages, which some attempts cannot parse, and is reparsed
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from tests.chaos.live import Live, Order
from tests.chaos.trial import MAX_DEPTH, MAX_JOBS, Trial

from longshore.conformance.history.events import JobsMoved, LimitsSet, ReaderSaid, RunPaused

RUNS = ("main", "grow", "hold", "again", "away", "out")
NAMES = {"again": 30, "grow": 20}
"""How many names the submitted jobs of a run have, if they are few. The run with limits must be able to grow."""
PARTITIONS = ("", "A", "B", "C")
MOST_WORKERS = 4
_PATIENCE = 20.0
"""Seconds for a new worker to begin, on a busy machine."""
STATES = ("pending", "claimed", "completed", "failed", "cancelled")


def begin(trial: Trial) -> None:
    """Submit the first jobs of every run, and start two workers."""
    trial.notes.write(LimitsSet(queue="main", run="grow", max_jobs=MAX_JOBS, max_depth=MAX_DEPTH))
    for run in RUNS:
        trial.carry_out(_submission(trial, run, 12))
    trial.order(_pages(trial, range(8)))
    for _ in range(2):
        start_worker(trial)


def _lines(trial: Trial, run: str, number: int) -> list[str]:
    """Return jobs as lines of a JSONL file. Some names come again, in this submission or a later one."""
    chance = trial.chance
    lines = []
    for _ in range(number):
        key = str(chance.randrange(NAMES.get(run, 400)))
        lines.append(json.dumps({"payload": {"n": key}, "key": key, "partition": PARTITIONS[int(key) % 4]}))
    return lines


def _limits(run: str) -> tuple[str, ...]:
    return ("--max-jobs", str(MAX_JOBS), "--max-depth", str(MAX_DEPTH)) if run == "grow" else ()


def _submission(trial: Trial, run: str, number: int) -> Order:
    kind = trial.chance.choice(["page", "page", "plain", "long"])
    return _submission_of(kind, run, _lines(trial, run, number))


def _submission_of(kind: str, run: str, lines: Sequence[str]) -> Order:
    arguments = ("submit", kind, "--jobs-file", "-", "--run", run, *_limits(run))
    return Order("submitter", arguments, "\n".join(lines))


def submit(trial: Trial) -> None:
    """Submit some jobs to one of the runs; one that was moved away gets none."""
    run = trial.chance.choice(["main", "main", "grow", "hold", "out"])
    trial.order(_submission(trial, run, trial.chance.randint(1, 40)))


def submit_long_jobs(trial: Trial) -> None:
    """Submit jobs that take seconds, so that workers hold many of them."""
    trial.order(long_jobs(trial, "main"))


def long_jobs(trial: Trial, run: str, *, first: bool = False) -> Order:
    """Return the submission of jobs that take seconds; `first` puts them before all others."""
    lines = [json.dumps(json.loads(line) | {"priority": -1 if first else 0}) for line in _lines(trial, run, 20)]
    return _submission_of("long", run, lines)


def _one_job(kind: str, key: str) -> Order:
    """Return the submission of a job that comes before all others: what it is for should happen soon."""
    return _submission_of(kind, "main", [json.dumps({"payload": {"n": key}, "key": key, "priority": -1})])


def submit_slowly(trial: Trial) -> None:
    """Submit jobs that arrive over seconds, so that the run is being submitted while others look at it."""
    if trial.of_role("slow submitter"):
        return
    lines = _lines(trial, "main", 60)
    read, write = os.pipe()
    live = trial.start("slow submitter", "submit", "page", "--jobs-file", "-", "--run", "main", stdin=read)
    os.close(read)
    trial.fault("submission under way", True, live)

    def feed() -> None:
        pause = threading.Event()
        with suppress(BrokenPipeError), os.fdopen(write, "w") as stream:
            for number, line in enumerate(lines):
                stream.write(line + "\n")
                if number % 16 == 15:
                    stream.flush()
                    pause.wait(1)

    threading.Thread(target=feed, daemon=True).start()
    live.then = lambda code: trial.fault("submission under way", False, live)


def submit_a_blocker(trial: Trial) -> None:
    """Submit a job that blocks the event loop of its worker."""
    key = f"blocks-{next(trial.numbers)}"
    victims = trial.of_role("worker")
    trial.fault("blocked event loop", True, *victims)
    trial.order(_one_job("blocks", key))
    # The watchdog ends the worker after that.
    trial.later(10, lambda: trial.fault("blocked event loop", False, *victims))


def start_worker(trial: Trial) -> None:
    """Start a worker that may differ from the others in what it takes."""
    if len(trial.of_role("worker")) >= MOST_WORKERS:
        return
    chance = trial.chance
    options = ["--concurrency", str(chance.randint(1, 6)), "--batch-size", str(chance.choice([1, 3, 20]))]
    until_done = ""
    match chance.randrange(6):
        case 0:
            options += ["--kinds", "page,blocks"]
        case 1:
            options += ["--partitions", ",".join(chance.sample(PARTITIONS[1:], 2))]
        case 2:
            until_done = chance.choice(["main", "grow", "hold"])
            options += ["--run", until_done, "--until-done"]
        case _:
            pass
    trial.start("worker", "work", "pages.py", *options, until_done=until_done)


def start_fleet(trial: Trial) -> None:
    """Start a fleet whose members share partitions, strictly or not."""
    if trial.of_role("fleet"):
        return
    chance = trial.chance
    strict = ["--strict-partitions"] if chance.random() < 0.5 else []
    mine = ",".join(chance.sample(PARTITIONS[1:], 2))
    options = ["--workers", "2", "--stagger", "0", "--concurrency", "2", "--yes", "--partitions", mine, *strict]
    fleet = trial.start("fleet", "fleet", "pages.py", *options)
    trial.later(chance.uniform(5, 15), lambda: trial.signal(fleet, signal.SIGINT))


def reparse(trial: Trial) -> None:
    """Run the handlers again on the stored pages of a run: those that failed pass now. New pages come for the next."""
    new = [3 * next(trial.numbers) for _ in range(3)]
    trial.order(Order("reparser", ("reparse", "parse", "pages.py")), _pages(trial, new))


def _pages(trial: Trial, numbers: Iterable[int]) -> Order:
    return _submission_of("fetch", "parse", [json.dumps({"url": f"{trial.site.url}/{each}"}) for each in numbers])


def stop_worker(trial: Trial) -> None:
    """Let a worker drain; half of the time a second signal makes it give everything back."""
    if (worker := _any(trial, "worker")) is None:
        return
    worker.until_done = ""
    trial.signal(worker, signal.SIGINT)
    if trial.chance.random() < 0.5:
        trial.later(0.3, lambda: trial.signal(worker, signal.SIGINT))


def leave_at_once(trial: Trial) -> None:
    """Tell a worker twice to stop while a handler of it ignores that: it settles what it can, and ends itself."""
    if trial.of_role("leaver"):
        return
    key = f"stubborn-{next(trial.numbers)}"
    trial.order(_one_job("stubborn", key))
    worker = trial.start("leaver", "work", "pages.py", "--kinds", "stubborn")
    worker.brings = "path shutdown"

    def interrupt() -> None:
        trial.signal(worker, signal.SIGINT)
        trial.later(0.5, lambda: trial.signal(worker, signal.SIGINT))

    trial.when(lambda: trial.has_entered(worker), interrupt, seconds=_PATIENCE)


def look(trial: Trial) -> None:
    """Ask for the status of a run, or look at it in `top`, and note what was said."""
    run, began = trial.chance.choice(RUNS[:3]), trial.moments.tick()
    if trial.chance.random() < 0.5:
        if (seen := trial.top(run)) is not None:
            counts = {state: getattr(seen.count, state) for state in STATES}
            paused, promised = bool(seen.blockers.paused), seen.left is not None
            told = ReaderSaid(
                queue="main", run=run, reader="top", began=began, counts=counts, paused=paused, promised=promised
            )
            trial.notes.write(told)
        return
    live = trial.start("reader", "status", run, "--json")

    def then(code: int) -> None:
        if code == 0:
            told = json.loads(live.said.read_text())
            counts = {state: told[state] for state in STATES}
            trial.notes.write(ReaderSaid(queue="main", run=run, reader="status", began=live.began, counts=counts))

    live.then = then


def wait(trial: Trial) -> None:
    """Wait for the end of a run beside everything else, and note how that ended."""
    if trial.of_role("waiter"):
        return
    run = trial.chance.choice(["main", "grow", "hold"])
    live = trial.start("waiter", "wait", run, "--timeout", "20s")

    def then(code: int) -> None:
        trial.notes.write(ReaderSaid(queue="main", run=run, reader="wait", began=live.began, code=code))

    live.then = then


def pause(trial: Trial) -> None:
    """Pause a run for some seconds, and start a worker meanwhile."""
    if "paused" in trial.wide_faults:
        return
    trial.done.add("pause")
    done = trial.command("operator", "pause", "hold")
    trial.done.remove("pause")
    if done.returncode:
        return
    trial.moments.tick()
    trial.notes.write(RunPaused(queue="main", run="hold", on=True))
    trial.wide_faults.add("paused")
    trial.order(_submission(trial, "hold", 10))
    # One that asks for this run, and one that asks for any.
    new = [trial.start("worker", "work", "pages.py", *chosen) for chosen in (("--run", "hold"), ())]
    seconds = trial.chance.uniform(2, 5)

    def both_have_begun() -> bool:
        return all(trial.has_called(each) for each in new)

    trial.when(both_have_begun, lambda: trial.later(seconds, lambda: resume(trial)), seconds=_PATIENCE)


def resume(trial: Trial) -> None:
    """End the pause of a run. If the queue has trouble, the person tries again."""
    if "pause" in trial.done:
        # It is being paused at this moment: what is noted must have happened in the same order.
        trial.later(0.2, lambda: resume(trial))
        return
    trial.notes.write(RunPaused(queue="main", run="hold", on=False))
    trial.wide_faults.discard("paused")
    if trial.command("operator", "resume", "hold").returncode:
        trial.later(1, lambda: resume(trial))


def operate(trial: Trial) -> None:
    """Cancel jobs of a run, and mostly retry those and the failed ones."""
    partition = trial.chance.choice(PARTITIONS[1:])
    cancel = Order("operator", ("cancel", "--run", "hold", "--partition", partition, "--yes"))
    retry = Order("operator", ("retry", "--run", "hold", "--state", "failed,cancelled", "--yes"))
    trial.order(_submission(trial, "hold", 10), cancel, *([retry] if trial.chance.random() < 0.7 else []))


def release(trial: Trial) -> None:
    """Take jobs from workers that are at work on them."""
    take = Order("operator", ("release", "--run", "hold", "--yes"), after=trial.main.poll_interval)
    trial.order(long_jobs(trial, "hold", first=True), take)


def prune_and_resubmit(trial: Trial) -> None:
    """Remove the finished jobs of a run, and submit jobs of the same names."""
    prune = Order("operator", ("prune", "--run", "again", "--yes"))
    trial.order(prune, _submission(trial, "again", 10))


def copy(trial: Trial) -> None:
    """Copy a run into a queue on another medium, or copy what is missing there."""
    if trial.of_role("copier"):
        return
    if "move" not in trial.done:
        trial.carry_out(_submission(trial, "away", 5))
    url = _other(trial, "copy")
    trial.start("copier", "copy", trial.main.url, url, "--run", "away", "--resume")


def move(trial: Trial) -> None:
    """Move a run to a queue on another medium; the end of the trial repeats it until all of it has arrived."""
    if trial.of_role("mover"):
        return
    # After the first time, runs of their own: a run that was moved gets no more jobs.
    run = f"away-{next(trial.numbers)}" if "move" in trial.done else "away"
    trial.done.add("move")
    trial.carry_out(_submission(trial, run, 20))
    url = _other(trial, "moved")
    trial.notes.write(JobsMoved(queue="main", run=run, to="moved"))
    order = ("copy", trial.main.url, url, "--run", run, "--move", "--resume")
    trial.start("mover", *order).brings = "path move"

    def finish() -> None:
        """Jobs that are not due yet stay, and the hold of a killed mover keeps its jobs: repeat it.

        Completed jobs with records stay on a medium that keeps records.
        """
        for _ in range(3 if trial.main.keeps_records else 20):
            if trial.command("mover", *order).returncode == 0:
                return

    trial.before_the_drain.append(finish)


def work_offline(trial: Trial) -> None:
    """Check jobs out, work on them, and merge them back; sometimes after the hold has expired."""
    if trial.of_role("checkout", "offline worker", "merger"):
        return
    name = f"out-{next(trial.numbers)}.db"
    url = f"sqlite:///{trial.folder}/{name}"
    trial.name_queue(url, name)
    hold = trial.chance.choice([2, 30])
    order = ("copy", trial.main.url, url, "--claim", "8", "--hold", f"{hold}s", "--run", "out")
    checkout = trial.start("checkout", *order)
    checkout.brings = "path merge"
    # It does not renew: when its hold expires, its jobs are taken back as those of a dead worker.
    fault, state = "hold may expire", {"merged": False, "late": False}

    def be_late() -> None:
        if not state["merged"] and not state["late"]:
            state["late"] = True
            trial.fault(fault, True, checkout)

    def be_over() -> None:
        state["merged"] = True
        if state["late"]:
            trial.fault(fault, False, checkout)

    def end(code: int) -> None:
        if code == 0:
            be_over()
            return
        # It, its worker or its merge was killed or failed: what it holds is held until then.
        be_late()
        trial.later(hold + trial.main.lease, be_over)

    if hold < trial.main.lease:
        be_late()
    else:
        trial.later(hold / 2, be_late)

    def merge(code: int) -> None:
        trial.start("merger", "copy", url, trial.main.url).then = end

    def work(code: int) -> None:
        if code:
            end(code)
        else:
            worker = trial.start("offline worker", "work", "pages.py", "--until-done", queue=url)
            worker.brings, worker.then = "path merge", merge

    checkout.then = work


def _other(trial: Trial, name: str) -> str:
    url = next((url for url, known in trial.queues.items() if known == name), "")
    if not url:
        path = f"{trial.folder}/{name}"
        url = f"dir://{path}" if trial.main.name == "sqlite" else f"sqlite:///{path}.db"
        trial.name_queue(url, name)
    return url


def _any(trial: Trial, role: str) -> Live | None:
    there = trial.of_role(role)
    return trial.chance.choice(there) if there else None


ROLES: Mapping[Callable[[Trial], None], float] = {
    submit: 6,
    submit_long_jobs: 1,
    submit_slowly: 2,
    submit_a_blocker: 1,
    start_worker: 8,
    stop_worker: 2,
    leave_at_once: 0.5,
    look: 3,
    wait: 2,
    pause: 1,
    operate: 2,
    release: 1,
    prune_and_resubmit: 2,
    start_fleet: 0.7,
    reparse: 1,
    copy: 1,
    move: 0.3,
    work_offline: 2,
}
"""The steps of people and programs, with the weight of each."""
