"""The verbs, put together into one command."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from longshore.cli import (
    archive,
    assign,
    autoscale_target,
    cancel,
    collect,
    config,
    copy,
    demo,
    doctor,
    estimate,
    export,
    fleet,
    hosts,
    init,
    jobs,
    migrate,
    pause,
    proxies,
    prune,
    release,
    reparse,
    replay,
    retry,
    run,
    schedule,
    scrapers,
    show,
    start,
    status,
    stop,
    submit,
    top,
    wait,
    work,
)
from longshore.cli.options import LOCAL
from longshore.errors import SettingsError
from longshore.settings import TABLE, Setting, Settings, resolve
from longshore.settings import show as show_value

_HELP = ["--help", "-h"]


class _Verb(TyperCommand):
    """A verb whose usage names what it needs as it is typed: FILE, not {FILE}."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


_PEOPLE, _JOBS, _SETUP = "Run work", "Look and steer", "Set up"

app = typer.Typer(
    name="longshore",
    help="Scraping and document jobs on as many machines as you have.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": _HELP},
)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="A whole run on this machine: jobs in, results out.")(
    run.run
)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="Start a scraper by its name, here or for all workers.")(
    start.start
)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="Put jobs into the queue.")(submit.submit)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="Runs that start by themselves, every night.")(
    schedule.schedule
)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="Be one worker.")(work.work)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="Many workers on this machine, watched.")(fleet.fleet)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="Stop the fleet of this folder.")(stop.stop)
app.command(cls=export.Export, rich_help_panel=_PEOPLE, short_help="What a run found, as one file.")(export.export)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="Take results into a folder as they come.")(collect.collect)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Which scrapers there are.")(scrapers.scrapers)
app.command(cls=_Verb, rich_help_panel=_PEOPLE, short_help="Watch a run until it ends.")(wait.wait)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="How far each run is.")(status.status)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="When a run will be done, and what binds.")(estimate.estimate)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Watch a queue or a run live.")(top.top)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Which worker has which partitions.")(assign.assign)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="How fast each host is asked, and which are closed.")(
    hosts.hosts
)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="List jobs.")(jobs.jobs)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Everything about one job.")(show.show)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Try failed jobs again.")(retry.retry)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Run a kept failure again, offline.")(replay.replay)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Parse the kept pages of a run again.")(reparse.reparse)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Give up jobs that are not finished.")(cancel.cancel)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Let nothing of a run begin.")(pause.pause)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Let a paused run go on.")(pause.resume)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Take claimed jobs out of the hands of workers.")(
    release.release
)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Copy or move jobs into another queue; take some offline.")(
    copy.copy
)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Remove finished jobs for good.")(prune.prune)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="Pack old completed jobs away.")(archive.archive)
app.command(cls=_Verb, rich_help_panel=_JOBS, short_help="How many workers the waiting work asks for.")(
    autoscale_target.autoscale_target
)
app.command(cls=_Verb, rich_help_panel=_SETUP, short_help="Make or update the queue's tables.")(migrate.migrate)
app.command(cls=_Verb, rich_help_panel=_SETUP, short_help="Every setting, and where it came from.")(config.config)
app.command(cls=doctor.Doctor, rich_help_panel=_SETUP, short_help="What stands in the way of work, and the fix.")(
    doctor.doctor
)
app.command(cls=_Verb, rich_help_panel=_SETUP, short_help="Which proxies work, and what is wrong with the others.")(
    proxies.proxies
)
app.command(cls=_Verb, rich_help_panel=_SETUP, short_help="See it work: a bundled site, scraped.")(demo.demo)
app.command(cls=_Verb, rich_help_panel=_SETUP, short_help="Make a folder to start from.")(init.init)


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
    settings = _settings() if with_values else None
    verbs: dict[str, Any] = made.commands  # type: ignore[attr-defined]
    for each in (made, *verbs.values()):
        # It takes no value, whatever its type is called.
        each.get_help_option(typer.Context(each, help_option_names=_HELP)).metavar = ""
    for name, verb in verbs.items():
        # A line break in a docstring is no line break on the screen.
        verb.help = "\n\n".join(" ".join(part.split()) for part in (verb.help or "").split("\n\n"))
        for option in verb.params:
            if setting := TABLE.get(option.name):
                option.help = f"{option.help} [dim]\\[{', '.join(setting.variables)}][/dim]{_default(name, setting)}"
                if settings is not None and setting.name in settings.sources:
                    shown = settings.shown(setting.name).replace("[", "\\[")
                    option.help += f" [yellow]Now {shown}, from {settings.source(setting.name)}.[/yellow]"
    return made


def _default(verb: str, setting: Setting) -> str:
    value = LOCAL.get(setting.name, setting.default) if verb == "run" else setting.default
    return "" if value is None or value is False else f" [dim]\\[default: {show_value(value)}][/dim]"


def _settings() -> Settings | None:
    # Help must help even where the settings are broken; the command itself will say what is wrong with them.
    try:
        return resolve()
    except SettingsError:
        return None
