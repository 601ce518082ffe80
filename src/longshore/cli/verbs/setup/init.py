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
) -> None:
    """Create a folder to start from: a handler, a test that passes, a list of URLs, settings, a README."""
    from longshore.cli.verbs.setup.scaffold import files
    from longshore.ui.output import write
    from longshore.ui.program import program, python

    made = files()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file. Name a folder.")
    if taken := [name for name in made if (folder / name).exists()]:
        raise UsageError(f"{folder} has {', '.join(taken)} already, and nothing is overwritten. Choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            # "x" refuses to overwrite a file that was created in the meantime.
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{folder} cannot be filled: {error.strerror or error}. Choose another folder.") from error
    write(f"{folder} holds:")
    for name, what in WHAT.items():
        write(f"  {name:<18} {what}")
    write(f"\nNext:\n  cd {shlex.quote(str(folder))}")
    write(f"  {python(folder)} -m pip install pytest\n  {python(folder)} -m pytest")
    write(f"  {program(folder)} run handlers.py --urls-file urls.txt")


WHAT = {
    "handlers.py": "the work: one function for one page",
    "test_handlers.py": "a test of it that passes",
    "pytest.ini": "how the test is run",
    "urls.txt": "what to work on",
    ".env": "the settings of this machine: where the queue is",
    ".env.example": "every setting, to copy from",
    ".gitignore": "what should not be committed",
    "README.md": "how to go on",
}
"""The purpose of each file of the scaffold."""
