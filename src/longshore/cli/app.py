"""The verbs, put together into one command. Each is imported when it is asked for."""

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
_PEOPLE, _JOBS, _SETUP = "Run work", "Look and steer", "Set up"


class _Listed(NamedTuple):
    """A verb as the list of verbs has it. The function has the verb's name."""

    module: str
    """Below `longshore.cli.verbs`."""
    panel: str
    short_help: str


VERBS: Mapping[str, _Listed] = {
    "run": _Listed("work.run", _PEOPLE, "A whole run on this machine: jobs in, results out."),
    "start": _Listed("work.start", _PEOPLE, "Start a scraper by its name, here or for all workers."),
    "submit": _Listed("work.submit", _PEOPLE, "Put jobs into the queue."),
    "schedule": _Listed("work.schedule", _PEOPLE, "Runs that start by themselves, every night."),
    "work": _Listed("work.work", _PEOPLE, "Be one worker."),
    "fleet": _Listed("work.fleet", _PEOPLE, "Many workers on this machine, watched."),
    "stop": _Listed("work.stop", _PEOPLE, "Stop the fleet of this folder."),
    "export": _Listed("work.export", _PEOPLE, "What a run found, as one file."),
    "collect": _Listed("work.collect", _PEOPLE, "Take results into a folder as they come."),
    "scrapers": _Listed("inspect.scrapers", _JOBS, "Which scrapers there are."),
    "wait": _Listed("work.wait", _PEOPLE, "Watch a run until it ends."),
    "status": _Listed("inspect.status", _JOBS, "How far each run is."),
    "estimate": _Listed("inspect.estimate", _JOBS, "When a run will be done, and what binds."),
    "top": _Listed("inspect.top", _JOBS, "Watch a queue or a run live."),
    "assign": _Listed("inspect.assign", _JOBS, "Which worker has which partitions."),
    "hosts": _Listed("inspect.hosts", _JOBS, "How fast each host is asked, and which are closed."),
    "jobs": _Listed("inspect.jobs", _JOBS, "List jobs."),
    "show": _Listed("inspect.show", _JOBS, "Everything about one job."),
    "records": _Listed("inspect.records", _JOBS, "How many records a run has, and why others were rejected."),
    "retry": _Listed("control.retry", _JOBS, "Try failed jobs again."),
    "replay": _Listed("control.replay", _JOBS, "Run a kept failure again, offline."),
    "reparse": _Listed("control.reparse", _JOBS, "Parse the kept pages of a run again."),
    "cancel": _Listed("control.cancel", _JOBS, "Give up jobs that are not finished."),
    "pause": _Listed("control.pause", _JOBS, "Let nothing of a run begin."),
    "resume": _Listed("control.pause", _JOBS, "Let a paused run go on."),
    "release": _Listed("control.release", _JOBS, "Take claimed jobs out of the hands of workers."),
    "copy": _Listed("control.copy", _JOBS, "Copy or move jobs into another queue; take some offline."),
    "prune": _Listed("control.prune", _JOBS, "Remove finished jobs for good."),
    "archive": _Listed("control.archive", _JOBS, "Pack old completed jobs away."),
    "autoscale-target": _Listed("inspect.autoscale_target", _JOBS, "How many workers the waiting work asks for."),
    "migrate": _Listed("setup.migrate", _SETUP, "Make or update the queue's tables."),
    "config": _Listed("setup.config", _SETUP, "Every setting, and where it came from."),
    "doctor": _Listed("setup.doctor", _SETUP, "What stands in the way of work, and the fix."),
    "proxies": _Listed(
        "setup.proxies", _SETUP, "How the proxies stand at each host; with check, which of a file work."
    ),
    "demo": _Listed("setup.demo", _SETUP, "See it work: a bundled site, scraped."),
    "init": _Listed("setup.init", _SETUP, "Make a folder to start from."),
}
"""In the order of the help."""

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
    """The whole command line. `with_values` adds to each option's help what it is set to now, and by whom."""
    made = typer.main.get_command(app)
    _plain_help(made)
    made.commands = _Commands(_settings() if with_values else None)  # type: ignore[attr-defined]
    return made


class _Commands(Mapping[str, Any]):
    """The verbs by name, made when they are looked up: one command needs one of them, and the help needs all."""

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
    # A line break in a docstring is no line break on the screen.
    verb.help = "\n\n".join(" ".join(part.split()) for part in (verb.help or "").split("\n\n"))
    for option in verb.params:
        coerce_on_use(option)
        if setting := TABLE.get(option.name):
            option.help = f"{option.help} [dim]\\[{', '.join(setting.variables)}][/dim]{_default(name, setting)}"
            if settings is not None and setting.name in settings.sources:
                shown = settings.shown(setting.name).replace("[", "\\[")
                option.help += f" [yellow]Now {shown}, from {settings.source(setting.name)}.[/yellow]"
    return verb


def _plain_help(made: Any) -> None:
    option = made.get_help_option(typer.Context(made, help_option_names=_HELP))
    # It takes no value, whatever its type is called.
    option.metavar = ""
    coerce_on_use(option)


def _default(verb: str, setting: Setting) -> str:
    value = LOCAL_DEFAULTS.get(setting.name, setting.default) if verb == "run" else setting.default
    return "" if value is None or value is False else f" [dim]\\[default: {show_value(value)}][/dim]"


def _settings() -> Settings | None:
    # Help must help even where the settings are broken; the command itself will say what is wrong with them.
    try:
        return resolve()
    except SettingsError:
        return None
