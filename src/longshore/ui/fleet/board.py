"""The figures of a running fleet: the workers' status reports, the supervisor's records, the queue's counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from longshore.clock import Clock
from longshore.fleet.launch.worker_command import worker_name
from longshore.fleet.partitions.assignment import Shares
from longshore.fleet.supervise.status_reports import read_report
from longshore.fleet.supervise.supervisor import Phase, Stop, SupervisedWorker
from longshore.queue import Count
from longshore.runs.estimate.estimate import Estimate
from longshore.runs.watch.current_rate import CurrentRate
from longshore.system.printable import printable
from longshore.worker.status.worker_status import WorkerStatus

_LASTING = 2
"""Consecutive reports of trouble after which a worker counts as paused."""


@dataclass(frozen=True)
class FleetRow:
    """The figures of one worker."""

    name: str
    phase: Phase
    partitions: tuple[str, ...]
    owned: int | None
    """How many partitions it owns; None without partitions."""
    job: str
    under_way: int
    trouble: str
    done: int
    failed: int
    per_second: float
    restarts: int
    memory: int | None


@dataclass
class FleetBoard:
    """The figures of one fleet. The supervisor writes them; a view only reads."""

    clock: Clock
    posts: Mapping[str, SupervisedWorker]
    shares: Mapping[str, tuple[str, ...]] | None
    """The partitions that each worker begins with, by its name; None without partitions."""
    title: str
    started: int
    """How many workers are started."""
    asked: Stop = Stop.NOT
    """The strongest stop that was requested of the whole fleet."""
    count: Count = field(default_factory=Count)
    """The counts of the queue."""
    estimate: Estimate | None = None
    """When the run will be done; None without an estimate."""
    notices: Mapping[str, str] = field(default_factory=dict)
    """Notices about the run (pauses, limits, closures): a line each, under a name that stays the same."""
    pace: CurrentRate = field(default_factory=CurrentRate)
    memory: dict[int, int] = field(default_factory=dict)
    """Memory in bytes, by process id."""
    reports: defaultdict[str, dict[int, WorkerStatus]] = field(default_factory=lambda: defaultdict(dict))
    """The last report of each process, by the worker's name and the process id."""
    heard_at: dict[int, float] = field(default_factory=dict)
    """When each process last reported (monotonic), by process id."""
    _troubled: Counter[int] = field(default_factory=Counter)
    """How many consecutive reports showed trouble, by process id."""
    _paces: defaultdict[str, CurrentRate] = field(default_factory=lambda: defaultdict(CurrentRate))

    def hear(self, name: str, line: bytes) -> None:
        """Take a status report of a worker."""
        report, post = read_report(line), self.posts.get(name)
        if report is None or post is None or post.pid is None:
            return
        self.reports[name][post.pid] = report
        self.heard_at[post.pid] = self.clock.monotonic()
        self._troubled[post.pid] = self._troubled[post.pid] + 1 if report.trouble else 0
        done = sum(each.completed + each.failed for each in self.reports[name].values())
        self._paces[name].note(self.clock.monotonic(), done)

    def counted(self, count: Count) -> None:
        """Take the counts of the queue."""
        self.count = count
        self.pace.note(self.clock.monotonic(), count.total - count.remaining, count.remaining)

    @property
    def restarts(self) -> int:
        """How often a crashed worker was restarted."""
        return sum(post.ending.restarts for post in self.posts.values())

    @property
    def phases(self) -> Counter[Phase]:
        """How many workers are in each phase."""
        return Counter(post.phase for post in self.posts.values())

    @property
    def completed(self) -> int:
        """How many jobs the workers of this fleet completed, by their own reports."""
        return sum(report.completed for reports in self.reports.values() for report in reports.values())

    @property
    def failed(self) -> int:
        """How many jobs failed for good in this fleet, by the workers' own reports."""
        return sum(report.failed for reports in self.reports.values() for report in reports.values())

    @property
    def paused(self) -> dict[str, str]:
        """The running workers that are paused, by name, with the reason."""
        return {
            name: report.trouble
            for name, report in self.running()
            if self._troubled[self.posts[name].pid or 0] >= _LASTING
        }

    @property
    def proxies_rest(self) -> str | None:
        """The hosts at which every proxy rests, as the first worker says that has such hosts.

        Empty if there are none; None if no worker has reported.
        """
        reported = [report.proxies_rest for _, report in self.running()]
        return printable(max(reported, key=bool)) if reported else None

    @property
    def goes_on(self) -> bool:
        """Whether at least one worker reports no trouble."""
        return any(not report.trouble for _, report in self.running())

    def running(self) -> Iterator[tuple[str, WorkerStatus]]:
        """Yield the running workers that have reported, with their last reports."""
        for name, post in self.posts.items():
            report = self.reports[name].get(post.pid or 0)
            if post.phase is Phase.RUNNING and report is not None:
                yield name, report

    def rows(self) -> list[FleetRow]:
        """Return the figures of every worker, in their order."""
        return [self._row(name, post) for name, post in self.posts.items()]

    def _row(self, name: str, post: SupervisedWorker) -> FleetRow:
        reports = self.reports[name]
        # For a worker that has ended, the last report of its last process counts.
        last = reports.get(post.pid or 0) or (list(reports.values())[-1] if reports and post.over else WorkerStatus())
        partitions, owned = last.partitions, last.owned
        if owned is None and self.shares is not None:
            partitions = self.shares.get(name, ())
            owned = len(partitions)
        if post.over and owned is not None:
            # Its partitions belong to other workers now.
            partitions, owned = (), 0
        live = post.pid is not None
        return FleetRow(
            name=name,
            phase=post.phase,
            partitions=tuple(map(printable, partitions)),
            owned=owned,
            job=printable(last.job) if live else "",
            under_way=last.under_way if live else 0,
            trouble=last.trouble if live else "",
            done=sum(each.completed for each in reports.values()),
            failed=sum(each.failed for each in reports.values()),
            per_second=self._paces[name].per_second if live else 0.0,
            restarts=post.ending.restarts,
            memory=self.memory.get(post.pid) if post.pid is not None else None,
        )


@dataclass
class ProxySummary:
    """Says once for all workers that their proxies rest, and once that these serve again."""

    board: FleetBoard
    say: Callable[[str], None]
    _reported: bool = False

    def look(self) -> None:
        """Say what has changed since the last call."""
        rest = self.board.proxies_rest
        if rest and not self._reported:
            self._reported = True
            self.say(
                f"PROXIES: {rest}. Nothing goes out without one: those jobs come back later, at no cost. "
                "`longshore proxies` shows why, logs/proxies.log has every change."
            )
        elif rest == "" and self._reported:
            self._reported = False
            self.say("PROXIES: they serve again, and the jobs that waited go on.")


def shares_by_name(shares: Shares) -> dict[str, tuple[str, ...]]:
    """Return the shares by the workers' names."""
    return {worker_name(number): share for number, share in shares.items()}
