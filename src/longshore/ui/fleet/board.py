"""What is known of a fleet while it runs: its workers' own reports, its supervisor's records, the queue's counts."""

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
from longshore.ui.words import printable
from longshore.worker.status.worker_status import WorkerStatus

_LASTING = 2
"""Reports in a row with trouble, after which it is more than a hitch."""


@dataclass(frozen=True)
class FleetRow:
    """One worker, as it is shown."""

    name: str
    phase: Phase
    partitions: tuple[str, ...]
    owned: int | None
    """How many partitions are its own; None where there are no partitions."""
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
    """The figures of one fleet. Whoever supervises it fills this; a view only reads."""

    clock: Clock
    posts: Mapping[str, SupervisedWorker]
    shares: Mapping[str, tuple[str, ...]] | None
    """What each worker begins with, by its name; None where there are no partitions."""
    title: str
    started: int
    """How many workers there are to be."""
    asked: Stop = Stop.NOT
    """How much the whole fleet has been asked to stop."""
    count: Count = field(default_factory=Count)
    """How the work stands in the queue."""
    estimate: Estimate | None = None
    """When the run will be done; None where nobody works that out."""
    notices: Mapping[str, str] = field(default_factory=dict)
    """What else there is to say of the run: pauses, limits, closures, a line each under a name that stays."""
    pace: CurrentRate = field(default_factory=CurrentRate)
    memory: dict[int, int] = field(default_factory=dict)
    """Bytes, by process."""
    _reports: defaultdict[str, dict[int, WorkerStatus]] = field(default_factory=lambda: defaultdict(dict))
    _troubled: Counter[int] = field(default_factory=Counter)
    """How many reports in a row have told of trouble, by process."""
    _paces: defaultdict[str, CurrentRate] = field(default_factory=lambda: defaultdict(CurrentRate))

    def hear(self, name: str, line: bytes) -> None:
        """A worker reported."""
        report, post = read_report(line), self.posts.get(name)
        if report is None or post is None or post.pid is None:
            return
        self._reports[name][post.pid] = report
        self._troubled[post.pid] = self._troubled[post.pid] + 1 if report.trouble else 0
        done = sum(each.completed + each.failed for each in self._reports[name].values())
        self._paces[name].note(self.clock.monotonic(), done)

    def counted(self, count: Count) -> None:
        """The queue was asked."""
        self.count = count
        self.pace.note(self.clock.monotonic(), count.total - count.remaining)

    @property
    def restarts(self) -> int:
        """How often a crashed worker was started again."""
        return sum(post.ending.restarts for post in self.posts.values())

    @property
    def phases(self) -> Counter[Phase]:
        """How many workers stand where."""
        return Counter(post.phase for post in self.posts.values())

    @property
    def completed(self) -> int:
        """How many jobs the workers of this fleet completed, as they said themselves."""
        return sum(report.completed for reports in self._reports.values() for report in reports.values())

    @property
    def failed(self) -> int:
        """How many failed for good in their hands."""
        return sum(report.failed for reports in self._reports.values() for report in reports.values())

    @property
    def paused(self) -> dict[str, str]:
        """Why nothing goes on, by the names of the workers that are to run and for which that is so."""
        return {
            name: report.trouble
            for name, report in self._running()
            if self._troubled[self.posts[name].pid or 0] >= _LASTING
        }

    @property
    def proxies_rest(self) -> str | None:
        """Where requests wait because every proxy rests, as the first worker says for which that is so.

        Empty where they wait for none of them; None where no worker says how it stands.
        """
        said = [report.proxies_rest for _, report in self._running()]
        return printable(max(said, key=bool)) if said else None

    @property
    def goes_on(self) -> bool:
        """Whether any worker says that it works, or could."""
        return any(not report.trouble for _, report in self._running())

    def _running(self) -> Iterator[tuple[str, WorkerStatus]]:
        """The workers that are to run and have said how they stand, with what they said last."""
        for name, post in self.posts.items():
            report = self._reports[name].get(post.pid or 0)
            if post.phase is Phase.RUNNING and report is not None:
                yield name, report

    def rows(self) -> list[FleetRow]:
        """Every worker, in their order."""
        return [self._row(name, post) for name, post in self.posts.items()]

    def _row(self, name: str, post: SupervisedWorker) -> FleetRow:
        reports = self._reports[name]
        # One that has ended said last what there is to know.
        last = reports.get(post.pid or 0) or (list(reports.values())[-1] if reports and post.over else WorkerStatus())
        partitions, owned = last.partitions, last.owned
        if owned is None and self.shares is not None:
            partitions = self.shares.get(name, ())
            owned = len(partitions)
        if post.over and owned is not None:
            # Whatever it had is for others now.
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
    """Says once for all workers that their proxies rest, and once that they serve again."""

    board: FleetBoard
    say: Callable[[str], None]
    _told: bool = False

    def look(self) -> None:
        """Say what has changed."""
        rest = self.board.proxies_rest
        if rest and not self._told:
            self._told = True
            self.say(
                f"PROXIES: {rest}. Nothing goes out without one: those jobs come back later, at no cost. "
                "`longshore proxies` shows why, logs/proxies.log has every change."
            )
        elif rest == "" and self._told:
            self._told = False
            self.say("PROXIES: they serve again, and the jobs that waited go on.")


def shares_by_name(shares: Shares) -> dict[str, tuple[str, ...]]:
    """The shares by the workers' names."""
    return {worker_name(number): share for number, share in shares.items()}
