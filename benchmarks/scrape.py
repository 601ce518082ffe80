"""The whole way of a page, from the queue to its records on disk, beside bare code and the peers.

    python -m benchmarks.scrape [--peers PYTHON] [--rounds N] [--only NAME,…]

Ours is `longshore work` on an SQLite queue: claim, robots.txt, pace, fetch, parse, 50 records emitted and written,
settlement, statistics, log. `--peers` names the interpreter of an environment that has the peers (`scrape_peers.py`
says which); without it they are left out.

Everybody fetches the same pages from the same site, by turns, and is watched from outside: between the first tenth of
the pages and the last twentieth, so that starting and ending count for nobody. The processor time for a page is the
figure to go by where others use the machine as well: the time on the clock is theirs, too.

A host that was never asked is asked once a second, and faster as it answers. What was learned stays in the queue; the
first round, which is not counted, is there to learn it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.measure import scratch
from benchmarks.scrape_site import PAGES, RECORDS, Site, running
from longshore.scrape.records import RecordReader

ROOT = Path(__file__).parents[1]
NICENESS = 10
RAW, OURS, TWO = "aiohttp + selectolax, bare", "longshore", "longshore, two processes"
PEERS = {
    "Scrapy": "scrapy",
    "Scrapy + selectolax": "scrapy-selectolax",
    "Crawlee HttpCrawler + selectolax": "crawlee-http",
    "Crawlee ParselCrawler": "crawlee-parsel",
}
HANDLERS = """
from benchmarks.scrape_parse import records
from longshore import handler

@handler("page")
async def page(job, kit):
    answer = await kit.http.get(job.payload["url"])
    for record in records(answer.body):
        kit.emit(record, kind="item")

@handler("glance")
async def glance(job, kit):
    await kit.http.get(job.payload["url"])
"""
_LOOK_SECONDS = 0.02
_FROM, _TO = 0.1, 0.95


class Seen(NamedTuple):
    """One contestant in one round."""

    rate: float
    """Pages a second, by the clock."""
    cost: float
    """Milliseconds of processor time for a page, of all its processes."""
    memory: float
    """The most that one of its processes had, in MB."""


class _Look(NamedTuple):
    served: int
    at: float
    cpu: float


def watched(
    site: Site, commands: Sequence[Sequence[str]], folder: Path, environments: Sequence[Mapping[str, str]], pages: int
) -> tuple[Seen, list[str]]:
    """Run these processes to their end; how they were seen from outside, and what each printed."""
    site.expect(len(commands))
    team = [
        subprocess.Popen(
            ["nice", "-n", str(NICENESS), *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("a"),
            text=True,
        )
        for command, environment in zip(commands, environments, strict=True)
    ]
    looks, memory = [], 0.0
    processes = [psutil.Process(member.pid) for member in team]
    while any(member.poll() is None for member in team):
        served, at = site.served, time.monotonic()
        spent, largest = _used(processes)
        memory = max(memory, largest)
        # Someone who has gone has taken his time along.
        if all(member.poll() is None for member in team):
            looks.append(_Look(served, at, spent))
        time.sleep(_LOOK_SECONDS)
    printed = [member.communicate()[0] for member in team]
    if failed := [member.args for member in team if member.returncode]:
        raise RuntimeError(f"{failed} failed: {(folder / 'stderr').read_text()[-2000:]}")
    begin = next(look for look in looks if look.served >= _FROM * pages)
    end = next((look for look in looks if look.served >= _TO * pages), looks[-1])
    done = end.served - begin.served
    return Seen(done / (end.at - begin.at), (end.cpu - begin.cpu) / done * 1000, memory), printed


def _used(processes: Sequence[psutil.Process]) -> tuple[float, float]:
    """The processor time of them all, children included, and the memory of the largest."""
    spent, largest = 0.0, 0.0
    for process in processes:
        try:
            for each in (process, *process.children(recursive=True)):
                times = each.cpu_times()
                spent += times.user + times.system
                largest = max(largest, each.memory_info().rss / 1e6)
        except psutil.NoSuchProcess:
            continue
    return spent, largest


def counting(site: Site, folder: Path, command: Sequence[str], pages: int) -> Seen:
    """A contestant that says at the end how much it found."""
    seen, (printed,) = watched(site, [[*command, site.url, str(pages)]], folder, [{}], pages)
    if json.loads(printed.splitlines()[-1]) != {"pages": pages, "records": pages * RECORDS}:
        raise RuntimeError(f"{command} found something else: {printed}")
    return seen


class Ours:
    """Workers on one queue, which remembers from round to round how fast the site may be asked."""

    def __init__(self, site: Site, folder: Path, pages: int, concurrency: int) -> None:
        self._site = site
        self._folder = folder
        self._pages = pages
        self._concurrency = concurrency
        self._runs = 0
        (folder / "handlers.py").write_text(HANDLERS)

    def run(self, processes: int, kind: str = "page") -> Seen:
        """One run of all pages."""
        self._runs += 1
        name = f"run-{self._runs}"
        urls = self._folder / "urls.txt"
        urls.write_text("".join(f"{self._site.url}/page/{number}\n" for number in range(self._pages)))
        self._longshore("submit", kind, "--urls-file", str(urls), "--run", name)
        command = [sys.executable, "-m", "longshore", "work", "handlers.py", "--run", name, "--until-done"]
        command += ["--concurrency", str(self._concurrency), "--log-format", "json"]
        environments = [self._environment(f"bench{number}") for number in range(processes)]
        seen, _ = watched(self._site, [command] * processes, self._folder, environments, self._pages)
        if kind == "page":
            found = RecordReader(self._folder / ".longshore" / "records", run=name).tally().kept
            if found != {"item": self._pages * RECORDS}:
                raise RuntimeError(f"There are other records than there should be: {found}")
        return seen

    def _environment(self, contact: str) -> dict[str, str]:
        return {"LONGSHORE_CONTACT": contact, "LONGSHORE_HOST_RATE": "1000000"}

    def _longshore(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "longshore", *arguments]
        return subprocess.run(command, cwd=self._folder, check=True, capture_output=True, text=True).stdout


def main(arguments: Sequence[str]) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrape", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", metavar="PYTHON", help="the interpreter of an environment with the peers")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--pages", type=int, default=PAGES, metavar="N", help=f"at most {PAGES:,}")
    parser.add_argument("--concurrency", type=int, default=32, metavar="N", help="jobs at once in one of our workers")
    parser.add_argument("--only", metavar="NAME,…", help="these contestants, by the beginning of their names")
    chosen = parser.parse_args(arguments)
    with running() as site, scratch() as folder:
        ours = Ours(site, folder, chosen.pages, chosen.concurrency)
        contestants = {
            RAW: partial(counting, site, folder, [sys.executable, "-m", "benchmarks.scrape_raw"], chosen.pages),
            OURS: partial(ours.run, 1),
            TWO: partial(ours.run, 2),
        }
        for name, peer in PEERS.items() if chosen.peers else ():
            command = [chosen.peers, "-m", "benchmarks.scrape_peers", peer]
            contestants[name] = partial(counting, site, folder, command, chosen.pages)
        if chosen.only:
            wanted = chosen.only.split(",")
            contestants = {name: each for name, each in contestants.items() if name.startswith(tuple(wanted))}
        _learn(ours)
        seen: dict[str, list[Seen]] = {name: [] for name in contestants}
        for _ in range(chosen.rounds):
            for name, contestant in contestants.items():
                before = site.spent
                seen[name].append(contestant())
                own = (site.spent - before) / site.served * 1000
                print(f"  {name}: {seen[name][-1]}; the site: {own:.3f} ms a page", file=sys.stderr, flush=True)
    print(table(seen))
    return 0


def _learn(ours: Ours) -> None:
    """Let the pace find out that the site takes anything."""
    ours.run(2, "glance")
    ours.run(2, "glance")


def table(seen: Mapping[str, Sequence[Seen]]) -> str:
    """The medians in Markdown; the ratios are medians of the rounds, in which all met about the same machine."""
    lines = [
        "| who | pages/s | ms of processor a page | MB | its processor time to ours | two of ours to it, pages/s |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, rounds in seen.items():
        rate, cost, memory = (statistics.median(values) for values in zip(*rounds, strict=True))
        cheaper = _ratio([each.cost for each in rounds], [each.cost for each in seen.get(OURS, ())])
        faster = _ratio([each.rate for each in seen.get(TWO, ())], [each.rate for each in rounds])
        lines.append(f"| {name} | {rate:,.0f} | {cost:.2f} | {memory:.0f} | {cheaper} | {faster} |")
    return "\n".join(lines)


def _ratio(ones: Sequence[float], others: Sequence[float]) -> str:
    if not ones or not others:
        return ""
    return f"{statistics.median(one / other for one, other in zip(ones, others, strict=True)):.2f}×"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
