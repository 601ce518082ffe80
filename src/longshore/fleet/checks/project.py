"""Checks of what the user wrote: settings, `.env`, handlers, the proxy file."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.errors import InputFileError
from longshore.fleet.checks.finding import CheckContext, CheckVerdict, Finding, known
from longshore.fleet.partitions.assignment_table import read_table
from longshore.scrape.proxies.proxy_file import read_proxies
from longshore.settings import DOTENV, ValueSource, read_dotenv, unknown_variables

_EXAMPLE = ".env.example"
_OF_NO_FILE = ("environment", "command line")
_WRITE_ONE = "Write one, with lines such as LONGSHORE_QUEUE=postgresql://…; `longshore config` lists what can be set."


async def check_settings(scene: CheckContext) -> Finding:
    """Every setting can be read, and none is misspelled."""
    name = "settings"
    if scene.faults:
        fix = "" if len(scene.faults) == 1 else "`longshore config` shows every setting once they can be read."
        return Finding(name, CheckVerdict.FAIL, " ".join(scene.faults), fix)
    settings = known(scene)
    if strangers := unknown_variables(folder=scene.plan.folder):
        return Finding(name, CheckVerdict.WARN, "; ".join(strangers), "Correct the name, or remove it.")
    count = len(settings.sources)
    what = f"Profile {settings.profile}; {count} set, the others have their default."
    return Finding(name, CheckVerdict.OK, what)


async def check_dotenv(scene: CheckContext) -> Finding:
    """There is a `.env`, or nothing needs one: what it is needed for above all is to name the queue."""
    name, path = ".env", scene.plan.folder / DOTENV
    if path.is_file():
        return Finding(name, CheckVerdict.OK, f"{path} sets {len(read_dotenv(path))} variables.")
    example = scene.plan.folder / _EXAMPLE
    fix = f"cp {_EXAMPLE} {DOTENV}, and change what you need." if example.is_file() else _WRITE_ONE
    sources = {} if scene.settings is None else scene.settings.sources
    if scene.plan.needs_dotenv and "queue" not in sources:
        # Work that goes to a queue of this folder's own, because the file that names the shared one was forgotten, is
        # found out late.
        return Finding(name, CheckVerdict.FAIL, f"There is no {DOTENV} here, and nothing else names the queue.", fix)
    if places := _places(sources.values()):
        return Finding(name, CheckVerdict.WARN, f"There is no {DOTENV} here; settings come from {places}.", fix)
    return Finding(name, CheckVerdict.WARN, f"There is no {DOTENV} here, and nothing else sets anything.", fix)


def _places(sources: Iterable[ValueSource]) -> str:
    levels = dict.fromkeys(source.level for source in sources)
    return ", ".join("the " * (level in _OF_NO_FILE) + level for level in levels if level != "profile")


async def check_handlers(scene: CheckContext) -> Finding:
    """The handler file can be imported and has handlers."""
    name, file = "handlers", scene.plan.handler_file
    loaded = await scene.loaded()
    if file is None or loaded is None:
        return Finding(name, CheckVerdict.SKIPPED, "No handler file was named.")
    if loaded.fault:
        # With a place in front it is an error inside the file; others say themselves what to do.
        inside = ":" in loaded.fault.partition(" ")[0]
        fix = f"Correct it; `python {file}` shows the whole error." if inside else ""
        return Finding(name, CheckVerdict.FAIL, loaded.fault, fix)
    return Finding(name, CheckVerdict.OK, f"{file} handles {', '.join(loaded.kinds)}.")


async def check_partitions(scene: CheckContext) -> Finding:
    """The fixed table, where there is one, gives every partition to exactly one worker."""
    name, path = "partitions", scene.plan.table
    if path is None:
        return Finding(name, CheckVerdict.OK, "Shared out among the workers by themselves: no fixed table is named.")
    # A relative path is meant from where the work is to run.
    table = read_table(scene.plan.folder / path)
    settings = scene.settings
    workers = settings.workers if settings is not None and "workers" in settings.sources else None
    loaded = await scene.loaded()
    required = scene.plan.partitions or (loaded.partitions if loaded is not None else ()) or None
    problems = table.problems(required, workers)
    held = {*table.partitions, *(required or ())}
    if missing := sorted(set(scene.plan.asked_for) - held):
        problems.append(f"No worker has {', '.join(missing)}, which --partitions names.")
    if without := sorted(set(scene.plan.at_work) - held - set(missing)):
        problems.append(f"There are jobs of {', '.join(without)}, and no worker has that.")
    if problems:
        return Finding(name, CheckVerdict.FAIL, " ".join(problems), f"Correct {path}.")
    what = f"{path} gives {len(table.partitions)} partitions to {len(table.rows)} workers"
    if required is None and not scene.plan.at_work and not scene.plan.asked_for:
        return Finding(name, CheckVerdict.OK, f"{what}. Whether any is missing is not known without --partitions.")
    return Finding(name, CheckVerdict.OK, f"{what}, each once and none missing.")


async def check_proxies(scene: CheckContext) -> Finding:
    """The proxy file, where one is named, can be read."""
    name, settings = "proxies", known(scene)
    if settings.proxy_file is None:
        return Finding(name, CheckVerdict.OK, "None are used: no proxy file is named.")
    path = scene.plan.folder / settings.proxy_file
    try:
        proxies = read_proxies(path)
    except InputFileError as error:
        return Finding(name, CheckVerdict.FAIL, str(error), f"{settings.source('proxy_file')} names the file.")
    return Finding(name, CheckVerdict.OK, f"{path} holds {len(proxies):,}.")
