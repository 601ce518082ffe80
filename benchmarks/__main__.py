"""Run suites, and print what they find: `python -m benchmarks [SUITE[:PART,…]]… [--to FILE]`."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Figure

SUITES = {
    "sqlite": "benchmarks.sqlite_suite",
    "postgres": "benchmarks.postgres_suite",
    "http": "benchmarks.http_suite",
    "broad": "benchmarks.broad",
    "browser": "benchmarks.browser",
}
"""name -> module with `figures() -> list[Figure]`, or with `PARTS`: name -> function of the share of the whole size,
whose docstring is printed above its figures. A new suite is a line here."""


class Part(NamedTuple):
    """Something to measure by itself."""

    title: str
    explanation: str
    figures: Callable[[], list[Figure]]


def main(arguments: Sequence[str]) -> int:
    """Print a table for each part as soon as it is done. 1 where one failed: the others are measured all the same."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Longshore beside its peers.")
    parser.add_argument("suites", nargs="*", metavar="SUITE[:PART,…]", help=f"of {', '.join(SUITES)}; all if none")
    parser.add_argument("--to", type=Path, metavar="FILE", help="write the tables there too")
    parser.add_argument("--share", type=float, default=1.0, metavar="X", help="a trial with this share of the jobs")
    chosen = parser.parse_args(arguments)
    try:
        parts = [part for name in chosen.suites or SUITES for part in parts_of(name, chosen.share)]
    except LookupError as error:
        parser.error(error.args[0])
    if chosen.to:
        chosen.to.write_text("")
    _say(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}", chosen.to)
    failed = False
    for part in parts:
        begin = time.monotonic()
        try:
            found = table(part.figures())
        except Exception:  # noqa: BLE001 - an hour of figures is not thrown away for one that failed
            failed = True
            found = f"Failed:\n\n```\n{traceback.format_exc()}```"
        took = f"{time.monotonic() - begin:.0f} s; load at the end {os.getloadavg()[0]:.1f}"
        _say("\n\n".join(text for text in (f"\n## {part.title}", part.explanation, found, took) if text), chosen.to)
    return int(failed)


def parts_of(name: str, share: float) -> list[Part]:
    """What a name on the command line means. Raises `LookupError`, in words, where there is no such thing."""
    suite, _, listed = name.partition(":")
    if suite not in SUITES:
        raise LookupError(f"No benchmark is called {suite}. There are: {', '.join(SUITES)}")
    module = importlib.import_module(SUITES[suite])
    known = getattr(module, "PARTS", {})
    if not known and not listed:
        return [Part(suite, "", module.figures)]
    wanted = listed.split(",") if listed else list(known)
    if unknown := [each for each in wanted if each not in known]:
        raise LookupError(f"{suite} has no part {', '.join(unknown)}. It has: {', '.join(known) or 'none'}")
    return [Part(f"{suite}: {each}", inspect.getdoc(known[each]) or "", partial(known[each], share)) for each in wanted]


def table(figures: list[Figure]) -> str:
    """The figures in Markdown."""
    lines = ["| what | figure | ratio |", "|---|---:|---:|"]
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}× {figure.versus}"
        number = (
            "" if figure.value is None else f"{figure.value:,.0f} " if figure.value >= 100 else f"{figure.value:.2f} "
        )
        lines.append(f"| {figure.name} | {number}{figure.unit} | {ratio} |")
    return "\n".join(lines)


def _say(text: str, to: Path | None) -> None:
    print(text, flush=True)
    if to:
        with to.open("a") as file:
            file.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
