"""The findings of the checks, as `longshore doctor` and `longshore fleet` show them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longshore.fleet.checks import Finding

_WIDEST = 100


def show_findings(findings: Sequence[Finding]) -> None:
    """Print the findings, with marks and colour on a terminal and plain lines in a pipe; then a summary."""
    from longshore.ui.output import write

    if sys.stdout.isatty():
        _show_on_terminal(findings)
    else:
        for finding in findings:
            write(f"{finding.verdict:<8}{finding.name:<12}{finding.what}")
            if finding.fix:
                write(f"{'':<8}{'':<12}fix: {finding.fix}")
    write(_summary(findings))


def _show_on_terminal(findings: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from longshore.fleet.checks import CheckVerdict
    from longshore.system.printable import printable_lines

    marks = {
        CheckVerdict.OK: ("✓", "green"),
        CheckVerdict.WARN: ("!", "yellow"),
        CheckVerdict.FAIL: ("✗", "bold red"),
        CheckVerdict.SKIPPED: ("–", "dim"),
    }
    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mark, style = marks[finding.verdict]
        text = Text(printable_lines(finding.what), style="" if finding.verdict is CheckVerdict.OK else style)
        if finding.fix:
            text.append(f"\n→ {printable_lines(finding.fix)}", style="not bold default")
        table.add_row(Text(mark, style=style), Text(finding.name), text)
    console.print()
    console.print(table, width=min(console.width, _WIDEST))
    console.print()


def _summary(findings: Sequence[Finding]) -> str:
    from longshore.fleet.checks import CheckVerdict
    from longshore.ui.words import counted

    failed, warned, fine = (
        sum(finding.verdict is verdict for finding in findings)
        for verdict in (CheckVerdict.FAIL, CheckVerdict.WARN, CheckVerdict.OK)
    )
    if failed:
        return f"{counted(failed, 'check')} failed, {counted(warned, 'warning')}, {fine} fine."
    return f"Nothing failed: {fine} fine, {counted(warned, 'warning')}."
