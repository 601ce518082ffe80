"""All verbs as one command. The module of a verb is imported when the verb is looked up.

docs/decisions/0010-commands-are-loaded-when-used.md says why.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import typer

from longshore.cli.verb import Verb, coerce_on_use
from longshore.errors import SettingsError
from longshore.runs.local.defaults import LOCAL_DEFAULTS
from longshore.settings import TABLE, Setting, Settings, resolve
from longshore.settings import show as show_value

_HELP = ["--help", "-h"]
_WORK, _INSPECT, _SETUP = "Run work", "Inspect and control", "Set up"


class _Listed(NamedTuple):
    """An entry of the list of verbs. The function in the module has the name of the verb."""

    module: str
    """Below `longshore.cli.verbs`."""
    panel: str
    short_help: str


VERBS: Mapping[str, _Listed] = {
    "run": _Listed("work.run", _WORK, "Run a file of jobs on this machine, and write the results."),
    "start": _Listed("work.start", _WORK, "Start a scraper by its name, here or for all workers."),
    "submit": _Listed("work.submit", _WORK, "Put jobs into the queue."),
    "schedule": _Listed("work.schedule", _WORK, "Start runs at set times, such as every night."),
    "publish": _Listed("work.publish", _WORK, "Let the queue carry the handlers, so that workers need no file."),
    "work": _Listed("work.work", _WORK, "Run one worker."),
    "fleet": _Listed("work.fleet", _WORK, "Run many workers on this machine, supervised."),
    "stop": _Listed("work.stop", _WORK, "Stop the fleet of this folder."),
    "export": _Listed("work.export", _WORK, "Write the results of a run to a file."),
    "collect": _Listed("work.collect", _WORK, "Append results to files in a folder as they come."),
    "scrapers": _Listed("inspect.scrapers", _INSPECT, "List the scrapers."),
    "wait": _Listed("work.wait", _WORK, "Watch a run until it ends."),
    "status": _Listed("inspect.status", _INSPECT, "Show the progress of each run."),
    "estimate": _Listed("inspect.estimate", _INSPECT, "Estimate when a run will be done, and what limits it."),
    "top": _Listed("inspect.top", _INSPECT, "Watch a queue or a run live."),
    "assign": _Listed("inspect.assign", _INSPECT, "Show which worker has which partitions."),
    "hosts": _Listed("inspect.hosts", _INSPECT, "Show the request rate of each host, and closed hosts."),
    "fetch": _Listed("inspect.fetch", _INSPECT, "Fetch one page as a handler would, and print it."),
    "shell": _Listed("inspect.shell", _INSPECT, "Open a Python prompt with a page, to try selectors."),
    "health": _Listed("inspect.health", _INSPECT, "Say whether the workers and the server here are healthy."),
    "logs": _Listed("inspect.logs", _INSPECT, "Show and follow the logs of the workers and the fleet here."),
    "disk": _Listed("inspect.disk", _INSPECT, "Show what is kept on this machine, and how large it is."),
    "jobs": _Listed("inspect.jobs", _INSPECT, "List jobs."),
    "show": _Listed("inspect.show", _INSPECT, "Show everything about one job."),
    "records": _Listed("inspect.records", _INSPECT, "Count the records of a run, and show why others were rejected."),
    "retry": _Listed("control.retry", _INSPECT, "Try failed jobs again."),
    "replay": _Listed("control.replay", _INSPECT, "Run a kept failure again, offline."),
    "reparse": _Listed("control.reparse", _INSPECT, "Parse the kept pages of a run again."),
    "cancel": _Listed("control.cancel", _INSPECT, "Cancel jobs that are not finished."),
    "pause": _Listed("control.pause", _INSPECT, "Pause a run: no job of it begins."),
    "resume": _Listed("control.pause", _INSPECT, "Resume a paused run."),
    "release": _Listed("control.release", _INSPECT, "Take claimed jobs away from their workers."),
    "copy": _Listed("control.copy", _INSPECT, "Copy or move jobs into another queue; take some offline."),
    "prune": _Listed("control.prune", _INSPECT, "Remove finished jobs for good."),
    "archive": _Listed("control.archive", _INSPECT, "Move old completed jobs to the archive."),
    "autoscale-target": _Listed("inspect.autoscale_target", _INSPECT, "Print how many workers the pending jobs need."),
    "serve": _Listed("setup.serve", _SETUP, "Offer the queue over HTTP, to workers with a URL and a key."),
    "keys": _Listed("setup.keys", _SETUP, "Make, list and revoke the API keys of the server."),
    "migrate": _Listed("setup.migrate", _SETUP, "Create or update the queue's tables."),
    "config": _Listed("setup.config", _SETUP, "Show every setting and its source."),
    "doctor": _Listed("setup.doctor", _SETUP, "Check this machine, and say how to fix what fails."),
    "proxies": _Listed("setup.proxies", _SETUP, "Show the health of each proxy per host; with check, test each."),
    "demo": _Listed("setup.demo", _SETUP, "Scrape a bundled site, to see how it works."),
    "init": _Listed("setup.init", _SETUP, "Create a folder to start from."),
    "recipes": _Listed("setup.recipes", _SETUP, "List complete systems to start from, and copy one."),
}
"""The verbs in the order of the help."""

app = typer.Typer(
    name="longshore",
    help="Scraping and document jobs on as many machines as you have.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": _HELP},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"longshore {version('longshore')}")
        raise typer.Exit


@app.callback()
def longshore(
    version: bool = typer.Option(
        False, "--version", metavar="", help="Show the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    """Scraping and document jobs on as many machines as you have, coordinated through whatever you already have."""
    del version


def command(*, with_values: bool = False) -> Any:
    """Return the whole command line. `with_values` adds to each option's help its present value and its source."""
    made = typer.main.get_command(app)
    _plain_help(made)
    made.commands = _Commands(_settings() if with_values else None)  # type: ignore[attr-defined]
    return made


class _Commands(Mapping[str, Any]):
    """The verbs by name, each made when it is looked up: a command needs one of them, only the help needs all."""

    def __init__(self, settings: Settings | None) -> None:
        self._settings = settings
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _verb(name, VERBS[name], self._settings)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _verb(name: str, listed: _Listed, settings: Settings | None) -> Any:
    function = name.replace("-", "_")
    module = importlib.import_module(f"longshore.cli.verbs.{listed.module}")
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    cls = getattr(module, "COMMAND", Verb)
    alone.command(name, cls=cls, rich_help_panel=listed.panel, short_help=listed.short_help)(getattr(module, function))
    verb: Any = typer.main.get_command(alone)
    _plain_help(verb)
    # Line breaks inside a paragraph of a docstring are not shown.
    verb.help = "\n\n".join(" ".join(part.split()) for part in (verb.help or "").split("\n\n"))
    for option in verb.params:
        coerce_on_use(option)
        if setting := TABLE.get(option.name):
            option.help = f"{option.help} [dim]\\[{setting.variable}][/dim]{_default(name, setting)}"
            if settings is not None and setting.name in settings.sources:
                shown = settings.shown(setting.name).replace("[", "\\[")
                option.help += f" [yellow]Now {shown}, from {settings.source(setting.name)}.[/yellow]"
    return verb


def _plain_help(made: Any) -> None:
    option = made.get_help_option(typer.Context(made, help_option_names=_HELP))
    # The option takes no value, so the help names none.
    option.metavar = ""
    coerce_on_use(option)


def _default(verb: str, setting: Setting) -> str:
    value = LOCAL_DEFAULTS.get(setting.name, setting.default) if verb == "run" else setting.default
    return "" if value is None or value is False else f" [dim]\\[default: {show_value(value)}][/dim]"


def _settings() -> Settings | None:
    # The help must work even if the settings are wrong; the command itself reports what is wrong with them.
    try:
        return resolve()
    except SettingsError:
        return None
