"""Run the three scrapers of this folder by turns, check their tables, and print lines and seconds.

python -m venv PEERS && PEERS/bin/pip install scrapy 'crawlee[parsel]'
python -m benchmarks.first_day --peers PEERS
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.first_day.site import ITEMS, Shop, name_of, price_of

HERE = Path(__file__).parent
TOOLS = ("longshore", "longshore, first rate 1000", "scrapy", "crawlee")


class Trial(NamedTuple):
    """One run of one tool."""

    seconds: float
    processor: float
    forbidden: int


def lines_of(file: Path) -> int:
    """Return how many lines of a scraper are written by its user: without blank lines and comments."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def command_of(tool: str, address: str, peers: Path | None) -> list[str]:
    """Return the one command that scrapes the shop into items.csv."""
    program = str(Path(sys.executable).parent / "longshore")
    if tool.startswith("longshore"):
        return [program, "run", str(HERE / "longshore_shop.py"), "--sitemap", address, "--items", "items.csv"]
    place = Path(sys.executable).parent if peers is None else peers.resolve() / "bin"
    if tool == "scrapy":
        return [str(place / "scrapy"), "runspider", str(HERE / "scrapy_shop.py"), "-O", "items.csv"]
    return [str(place / "python"), str(HERE / "crawlee_shop.py"), "items.csv"]


def faults(table: Path) -> list[str]:
    """Return what is wrong with a table of items; nothing if each of them is there once, as the shop has it."""
    with table.open(encoding="utf-8", newline="") as file:
        found = sorted((row["sku"], row["name"], f"{float(row['price']):.2f}") for row in csv.DictReader(file))
    wanted = sorted((str(number), name_of(number), price_of(number)) for number in range(1, ITEMS + 1))
    return [] if found == wanted else [f"{len(found)} rows, {len(set(wanted) - set(found))} items missing or wrong"]


async def trial(tool: str, peers: Path | None) -> Trial:
    """Scrape a new shop with a tool, in a new folder. Raise `RuntimeError` if its table is wrong."""
    shop = Shop()
    with tempfile.TemporaryDirectory() as folder:
        async with shop.served() as address:
            environment = {**os.environ, "SHOP": address}
            if tool.endswith("first rate 1000"):
                environment["LONGSHORE_HOST_FIRST_RATE"] = "1000"
            before, begin = _children(), time.monotonic()
            done = await asyncio.to_thread(
                subprocess.run,
                command_of(tool, address, peers),
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            seconds, processor = time.monotonic() - begin, _children() - before
        table = Path(folder) / "items.csv"
        wrong = faults(table) if table.exists() else ["no table"]
        if done.returncode or wrong:
            raise RuntimeError(f"{tool}: exit {done.returncode}, {wrong}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return Trial(seconds, processor, shop.forbidden)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a row for each tool."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_day", description=__doc__)
    parser.add_argument("--peers", type=Path, metavar="VENV", help="the environment with Scrapy and Crawlee")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=TOOLS)
    given = parser.parse_args()
    tools = given.only or TOOLS
    trials: dict[str, list[Trial]] = {tool: [] for tool in tools}
    for _ in range(given.rounds):
        for tool in tools:
            trials[tool].append(asyncio.run(trial(tool, given.peers)))
    print("| tool | lines | seconds | processor seconds | requests that robots.txt forbids |")
    print("|---|---:|---:|---:|---:|")
    for tool, made in trials.items():
        lines = lines_of(HERE / f"{tool.partition(',')[0]}_shop.py")
        seconds = statistics.median(each.seconds for each in made)
        processor = statistics.median(each.processor for each in made)
        print(f"| {tool} | {lines} | {seconds:.1f} | {processor:.1f} | {max(each.forbidden for each in made)} |")


if __name__ == "__main__":
    main()
