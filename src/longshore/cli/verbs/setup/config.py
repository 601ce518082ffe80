"""`longshore config`: show every setting, its value and its source."""

from __future__ import annotations

from longshore.cli import options


def config(
    json: options.Json = False,
    profile: options.Profile = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Show every setting with its value and its source. Passwords are masked."""
    from longshore.settings import TABLE, SecondsRange, resolve, show
    from longshore.ui.output import write_json
    from longshore.ui.tables import write_table

    settings = resolve({"profile": profile, "queue": queue, "debug": debug})
    if json:
        write_json(
            {
                name: {
                    "value": show(value) if isinstance(value := getattr(settings, name), str | SecondsRange) else value,
                    "source": settings.source(name).level,
                    "name": settings.source(name).name or None,
                    "variables": setting.variables,
                }
                for name, setting in TABLE.items()
            }
        )
        return
    write_table(
        ("setting", "value", "from"),
        [(name, settings.shown(name), str(settings.source(name))) for name in TABLE],
        cut=("value",),
    )
