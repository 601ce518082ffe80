"""Checks of the user's files: settings, `.env`, handlers, the partition table, the proxy file."""

from __future__ import annotations

import os
from collections.abc import Iterable

from longshore.errors import InputFileError, SettingsError
from longshore.fleet.checks.finding import CheckContext, CheckVerdict, Finding, known
from longshore.fleet.partitions.assignment_table import read_table
from longshore.scrape.proxies.environment import EnvironmentProxies
from longshore.scrape.proxies.proxy_file import read_proxies
from longshore.settings import DOTENV, ValueSource, read_dotenv, unknown_variables

_EXAMPLE = ".env.example"
_OF_NO_FILE = ("environment", "command line")
_WRITE_ONE = "Write one, with lines such as LONGSHORE_QUEUE=postgresql://…; `longshore config` lists what can be set."


async def check_settings(context: CheckContext) -> Finding:
    """Check that every setting can be read, and that none is misspelled."""
    name = "settings"
    if context.faults:
        fix = "" if len(context.faults) == 1 else "Once they can be read, `longshore config` shows every setting."
        return Finding(name, CheckVerdict.FAIL, " ".join(context.faults), fix)
    settings = known(context)
    if unknown := unknown_variables(folder=context.plan.folder):
        return Finding(name, CheckVerdict.WARN, "; ".join(unknown), "Correct the name, or remove it.")
    count = len(settings.sources)
    what = f"Profile {settings.profile}; {count} set, the others have their default."
    return Finding(name, CheckVerdict.OK, what)


async def check_dotenv(context: CheckContext) -> Finding:
    """Check that there is a `.env`, or that none is needed: above all it names the queue."""
    name, path = ".env", context.plan.folder / DOTENV
    if path.is_file():
        return Finding(name, CheckVerdict.OK, f"{path} sets {len(read_dotenv(path))} variables.")
    example = context.plan.folder / _EXAMPLE
    fix = f"cp {_EXAMPLE} {DOTENV}, and change what you need." if example.is_file() else _WRITE_ONE
    sources = {} if context.settings is None else context.settings.sources
    if context.plan.needs_dotenv and "queue" not in sources:
        # Without the file that names the shared queue, work would silently go to a queue in this folder.
        return Finding(name, CheckVerdict.FAIL, f"There is no {DOTENV} here, and nothing else names the queue.", fix)
    if names := _source_names(sources.values()):
        return Finding(name, CheckVerdict.WARN, f"There is no {DOTENV} here; settings come from {names}.", fix)
    return Finding(name, CheckVerdict.WARN, f"There is no {DOTENV} here, and nothing else sets anything.", fix)


def _source_names(sources: Iterable[ValueSource]) -> str:
    levels = dict.fromkeys(source.level for source in sources)
    return ", ".join("the " * (level in _OF_NO_FILE) + level for level in levels if level != "profile")


async def check_handlers(context: CheckContext) -> Finding:
    """Check that the handler file can be imported and has handlers."""
    name, file = "handlers", context.plan.handler_file
    loaded = await context.loaded()
    if file is None or loaded is None:
        return Finding(name, CheckVerdict.SKIPPED, "No handler file was named.")
    if loaded.fault:
        # A message that starts with a location is an error inside the file; other messages contain their fix.
        inside = ":" in loaded.fault.partition(" ")[0]
        fix = f"Correct it; `python {file}` shows the whole error." if inside else ""
        return Finding(name, CheckVerdict.FAIL, loaded.fault, fix)
    return Finding(name, CheckVerdict.OK, f"{file} handles {', '.join(loaded.kinds)}.")


async def check_partitions(context: CheckContext) -> Finding:
    """Check that the fixed table, if there is one, assigns every partition to exactly one worker."""
    name, path = "partitions", context.plan.table
    if path is None:
        return Finding(
            name, CheckVerdict.OK, "No fixed table is named: the workers divide the partitions among themselves."
        )
    # A relative path is relative to the folder in which the work will run.
    table = read_table(context.plan.folder / path)
    settings = context.settings
    workers = settings.workers if settings is not None and "workers" in settings.sources else None
    loaded = await context.loaded()
    required = context.plan.partitions or (loaded.partitions if loaded is not None else ()) or None
    problems = table.problems(required, workers)
    held = {*table.partitions, *(required or ())}
    if missing := sorted(set(context.plan.asked_for) - held):
        problems.append(f"No worker has {', '.join(missing)}, which --partitions names.")
    if without := sorted(set(context.plan.at_work) - held - set(missing)):
        problems.append(f"There are jobs of {', '.join(without)}, but no worker has these partitions.")
    if problems:
        return Finding(name, CheckVerdict.FAIL, " ".join(problems), f"Correct {path}.")
    what = f"{path} gives {len(table.partitions)} partitions to {len(table.rows)} workers"
    if required is None and not context.plan.at_work and not context.plan.asked_for:
        return Finding(name, CheckVerdict.OK, f"{what}. Without --partitions it is not known whether one is missing.")
    return Finding(name, CheckVerdict.OK, f"{what}, each once and none missing.")


async def check_proxies(context: CheckContext) -> Finding:
    """Say which way requests go. Check that the proxy file, if one is named, can be read."""
    name, settings = "proxies", known(context)
    if settings.tor:
        return Finding(name, CheckVerdict.OK, "Requests go through Tor.")
    if settings.proxy_file is None:
        try:
            usual = EnvironmentProxies.of({**read_dotenv(context.plan.folder / DOTENV), **os.environ})
        except SettingsError as error:
            return Finding(name, CheckVerdict.FAIL, str(error), "Correct it, or remove it.")
        if usual is not None:
            return Finding(name, CheckVerdict.OK, f"Requests go through the proxy of the environment, {usual}.")
        return Finding(name, CheckVerdict.OK, "Requests go to the sites directly: no proxy is named.")
    path = context.plan.folder / settings.proxy_file
    try:
        proxies = read_proxies(path)
    except InputFileError as error:
        return Finding(name, CheckVerdict.FAIL, str(error), f"{settings.source('proxy_file')} names the file.")
    return Finding(name, CheckVerdict.OK, f"{path} lists {len(proxies):,} proxies.")
