"""`longshore doctor`: check everything that work needs on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options
from longshore.cli.verb import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longshore.fleet.checks import CheckPlan, Finding

_REPORT = "--report"


class Doctor(Verb):
    """The verb: its `--report` may be given with or without a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; a bare `--report` gets an empty value, which means a file named after the time."""
        given = list(args)
        for place, argument in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else "--"
            # A report is never written to a handler file.
            if argument == _REPORT and (following.endswith(".py") or (following.startswith("-") and following != "-")):
                given[place] = f"{_REPORT}="
        return super().parse_args(ctx, given)


COMMAND = Doctor


def doctor(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The Python file with the handlers.")] = None,
    table: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Check this fixed table of partitions too.", show_default=False),
    ] = None,
    partitions: Annotated[
        str | None,
        typer.Option(
            metavar="P,…", help="The partitions that the table must hold; us-states is a list.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        str | None, typer.Option(metavar="N", help=options.meaning("workers"), show_default=False)
    ] = None,
    json: options.Json = False,
    report: Annotated[
        str | None,
        typer.Option(
            metavar="[F]",
            help="Also write a report for support into F, or into a file named after the time: versions, disk, "
            "memory, network, settings, the last log lines. Secrets are masked. - is standard output.",
            show_default=False,
        ),
    ] = None,
    profile: options.Profile = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Check everything that work needs, and say how to fix what is missing.

    Checks settings, handlers, queue, partitions, proxies, browser, VPN, network, git, disk, memory and clock. A failed
    check does not keep the others from running. The exit code is 1 if a check failed. Nothing is started.
    """
    from longshore.fleet.checks import CheckPlan
    from longshore.fleet.partitions.assignment_table import listed_partitions
    from longshore.worker.lifecycle.process_exit import run_and_exit

    given = {"queue": queue, "workers": workers, "profile": profile, "debug": debug}
    plan = CheckPlan(
        given={name: value for name, value in given.items() if value is not None},
        handler_file=file,
        table=table,
        partitions=None if partitions is None else listed_partitions(partitions),
        needs_dotenv=Path(".env.example").is_file(),
    )
    return run_and_exit(_examined(plan, report, json=json))


class _Ended:
    """The exit code of the process."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


async def _examined(plan: CheckPlan, report: str | None, *, json: bool) -> _Ended:
    from longshore.fleet.checks import CheckVerdict
    from longshore.fleet.checks.run_checks import run_checks
    from longshore.ui.findings import show_findings
    from longshore.ui.output import write_json

    findings = await run_checks(plan)
    failed = any(finding.verdict is CheckVerdict.FAIL for finding in findings)
    if json:
        write_json({"ok": not failed, "checks": findings})
    elif report != "-":
        show_findings(findings)
    if report is not None:
        await _write_report(plan, findings, report)
    return _Ended(int(failed))


async def _write_report(plan: CheckPlan, findings: Sequence[Finding], to: str) -> None:
    from longshore.cli.support_report import report as made
    from longshore.system.printable import printable_lines
    from longshore.ui.output import note

    text = await made(plan, findings)
    if to == "-":
        sys.stdout.write(printable_lines(text))
        return
    path = _path(to)
    _written(path, text)
    note(f"The report is in {path.absolute()}. Secrets are masked; read it once before you send it.")


def _path(to: str) -> Path:
    from datetime import UTC, datetime

    return Path(to or f"longshore-report-{datetime.now(UTC).astimezone():%Y%m%d-%H%M%S}.txt")


def _written(path: Path, text: str) -> None:
    from longshore.errors import UsageError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The report cannot be written to {path}: {error.strerror}. Name another file.") from error
