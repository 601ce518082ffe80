"""The report for support: the machine, the checks, the settings and the last log lines, without secrets."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from longshore.cli.failed_command import read_failed_command
from longshore.errors import InputFileError, SettingsError
from longshore.fleet.checks import CheckPlan, Finding
from longshore.fleet.checks.machine import gigabytes
from longshore.fleet.checks.run_checks import readable_settings
from longshore.masking import MASK, is_secret, mask_text
from longshore.observe.log_tail import PLACES, last_lines, log_files
from longshore.scrape.proxies.proxy_file import read_proxies
from longshore.settings import DOTENV, TABLE, Settings, read_dotenv
from longshore.system import machine
from longshore.url import mask_url

LOG_FILES = 5
"""How many log files are shown, the most recently written first."""
LOG_LINES = 40
# Shorter secrets are also common words; masking those would mask half of the report.
_SHORTEST_SECRET = 6
_TOKEN = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]+)"
)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_PROXY = re.compile(r"(?P<proxy>(?<![\w.-])(?:[\w-]+\.)+[\w-]+:\d{2,5}:[^:\s]+):[^\s\"',;]+")
# The name looks like a password, but the value is the current folder.
_NO_SECRET = frozenset({"PWD", "OLDPWD"})


async def report(plan: CheckPlan, findings: Sequence[Finding]) -> str:
    """Return the report as text. Every secret in it is masked, wherever it came from."""
    settings, faults = readable_settings(plan)
    git, browsers = await machine.git(), await machine.browsers()
    free, total = machine.memory()
    disk = machine.space(plan.folder)
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages().items())
    lines = [
        "Longshore report",
        _line("written", datetime.now(UTC).isoformat(timespec="seconds")),
        _line("command", shlex.join(["longshore", *map(mask_url, sys.argv[1:])])),
        _line("folder", str(plan.folder.absolute())),
        *_failed_command(plan.folder),
        *_heading("Machine"),
        _line("system", machine.system()),
        _line("python", machine.python()),
        _line("packages", packages),
        _line("git", f"{git.version} ({git.path})" if git else "not installed"),
        *(_line("browser", f"{each.version} ({each.path})") for each in browsers),
        *([] if browsers else [_line("browser", "none found")]),
        _line("processors", str(machine.processors())),
        _line("memory", f"{gigabytes(free)} of {gigabytes(total)} free"),
        _line("disk", f"{gigabytes(disk.free)} of {gigabytes(disk.total)} free under {disk.folder}"),
        *_heading("Network"),
        *(_line(i.name, f"{'up' if i.up else 'down'}  {' '.join(i.addresses)}") for i in machine.interfaces()),
        *_heading("Checks"),
        *(line for finding in findings for line in _finding_lines(finding)),
        *_heading("Settings"),
        *faults,
        *([] if settings is None else _settings(settings)),
        *_logs(plan.folder),
    ]
    return concealed("\n".join(lines) + "\n", secrets_of(plan, settings))


def concealed(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with everything masked that is, or looks like, a secret."""
    # The longest first: one secret may be the beginning of another.
    for secret in sorted(set(secrets), key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = "\n".join(mask_text(line) for line in text.split("\n"))
    text = _BEARER.sub(rf"\1 {MASK}", _TOKEN.sub(MASK, text))
    return _PROXY.sub(rf"\g<proxy>:{MASK}", text)


def secrets_of(plan: CheckPlan, settings: Settings | None) -> set[str]:
    """Return the secrets: values of variables with such names, passwords in URLs, passwords of proxies."""
    try:
        dotenv = read_dotenv(plan.folder / DOTENV)
    except SettingsError:
        dotenv = {}
    variables = {**dotenv, **os.environ}
    found = {value for name, value in variables.items() if is_secret(name) and name not in _NO_SECRET}
    urls = [value for value in variables.values() if "://" in value]
    if settings is not None:
        urls += [value for name in TABLE if isinstance(value := getattr(settings, name), str)]
        if settings.proxy_file is not None:
            urls += _proxies(plan.folder / settings.proxy_file)
    for url in urls:
        found |= _passwords(url)
    return {secret for secret in found if len(secret) >= _SHORTEST_SECRET}


def _passwords(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
        # A user name without a password is a token, except the default name.
        secret = parts.password or (parts.username if parts.username != "git" else None)
    except ValueError:
        return set()
    return {secret, unquote(secret)} if secret else set()


def _proxies(path: Path) -> list[str]:
    try:
        return [proxy.url for proxy in read_proxies(path)]
    except InputFileError:
        return []


def _settings(settings: Settings) -> Iterator[str]:
    width = max(map(len, TABLE))
    for name in TABLE:
        shown = MASK if is_secret(name) and settings.shown(name) else settings.shown(name)
        yield f"{name:<{width}}  {shown}  ({settings.source(name)})"


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield _line(finding.name, f"{finding.verdict.upper()}  {finding.what}")
    if finding.fix:
        yield _line("", f"fix: {finding.fix}")


def _failed_command(folder: Path) -> Iterator[str]:
    """Yield the lines about the last command that failed in this folder."""
    failed = read_failed_command(folder)
    if failed is not None:
        yield _line("failed", f"{failed.command}  (at {failed.at}, exit code {failed.exit_code})")
        yield _line("", failed.message)


def _logs(folder: Path) -> Iterator[str]:
    files = log_files(folder)
    if not files:
        yield from (*_heading("Logs"), f"none in {', '.join(PLACES)}")
    for path in files[: -LOG_FILES - 1 : -1]:
        yield from _heading(f"The last lines of {path}")
        try:
            yield from last_lines(path, LOG_LINES)
        except OSError as error:
            yield f"cannot be read: {error.strerror}"


def _line(name: str, text: str) -> str:
    return f"{name:<11} {text}".rstrip()


def _heading(text: str) -> list[str]:
    return ["", text, "-" * len(text)]
