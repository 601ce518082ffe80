"""Run the suites named on the command line, or all: `python -m benchmarks [sqlite …]`."""

from __future__ import annotations

import importlib
import os
import platform
import sys

from benchmarks.measure import Figure

SUITES = {"sqlite": "benchmarks.sqlite_suite", "postgres": "benchmarks.postgres_suite"}
"""name -> module with `figures() -> list[Figure]`. A new suite is a line here."""


def main(names: list[str]) -> int:
    """Print a table of figures for each suite."""
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"No benchmark is called {', '.join(unknown)}. There are: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}")
    for name in names or SUITES:
        print(f"\n## {name}\n\n{table(importlib.import_module(SUITES[name]).figures())}", flush=True)
    return 0


def table(figures: list[Figure]) -> str:
    """The figures in Markdown."""
    lines = ["| what | figure | ratio |", "|---|---:|---:|"]
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}× {figure.versus}"
        number = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"
        lines.append(f"| {figure.name} | {number} {figure.unit} | {ratio} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
