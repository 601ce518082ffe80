"""`longshore init`: create a folder to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from longshore.errors import UsageError


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder to fill; it is created if it does not exist.", show_default=False
        ),
    ],
    template: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The kind of work: pages (a list of URLs), crawl (follow links), items (lists that lead to items), "
            "documents (files of a folder) or class (a Worker class).",
        ),
    ] = "pages",
) -> None:
    """Create a folder to start from: handlers, a test that passes, something to work on, settings, a README."""
    from longshore.cli.verbs.setup.templates import TEMPLATES
    from longshore.ui.output import write
    from longshore.ui.program import program, python

    if template not in TEMPLATES:
        raise UsageError(f"There is no template '{template}'. The templates are: {', '.join(TEMPLATES)}.")
    chosen = TEMPLATES[template]
    made = chosen.files()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file. Name a folder.")
    if taken := [name for name in made if (folder / name).exists()]:
        raise UsageError(f"{folder} has {', '.join(taken)} already, and nothing is overwritten. Choose another folder.")
    try:
        for name, text in made.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            # "x" refuses to overwrite a file that was created in the meantime.
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{folder} cannot be filled: {error.strerror or error}. Choose another folder.") from error
    write(f"{folder} holds:")
    purposes = chosen.purposes()
    for name, what in purposes.items():
        write(f"  {name:<{max(18, *map(len, purposes))}} {what}")
    write(f"\nNext:\n  cd {shlex.quote(str(folder))}")
    write(f"  {python(folder)} -m pip install pytest\n  {python(folder)} -m pytest")
    for command in chosen.commands:
        write(f"  {program(folder)} {command}")
