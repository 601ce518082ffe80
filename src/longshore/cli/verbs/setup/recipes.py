"""`longshore recipes`: list the complete systems that come with Longshore, and copy one to change it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from longshore.cli import options
from longshore.errors import NotFoundError, UsageError


def recipes(
    action: Annotated[str | None, typer.Argument(metavar="copy", help="The action.", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The recipe.", show_default=False)] = None,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder to copy it into.", show_default=False)
    ] = None,
    debug: options.Debug = None,
) -> None:
    """List the recipes: complete systems that run offline on a replica of their source.

    'longshore recipes copy NAME DIR' copies one into a folder, for you to change. Its README says how to run it.
    """
    from longshore.ui.output import write

    del debug
    there = _there()
    if action is None:
        for each in sorted(there):
            write(f"{each:<14} {_summary(there[each])}")
        return
    if action != "copy":
        raise UsageError(f"longshore recipes takes copy, not '{action}'.")
    if name is None or folder is None:
        raise UsageError("Name the recipe and a folder: longshore recipes copy NAME DIR")
    if name not in there:
        raise NotFoundError(f"There is no recipe '{name}'. There are: {', '.join(sorted(there))}.")
    target = folder / name
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} is there already. Name another folder, or remove it.")
    shutil.copytree(there[name], target, ignore=shutil.ignore_patterns("__pycache__"))
    write(f"The recipe is in {target}. Read {target / 'README.md'} first.")


def _there() -> dict[str, Path]:
    """Return the folder of each recipe by its name."""
    import longshore

    package = Path(longshore.__file__).parent
    # Installed, they are in the package; in a clone, beside its sources.
    folder = next((each for each in (package / "recipes", package.parents[1] / "recipes") if each.is_dir()), None)
    found = [] if folder is None else folder.iterdir()
    return {each.name: each for each in found if (each / "README.md").is_file()}


def _summary(recipe: Path) -> str:
    """Return the first sentence of the README."""
    lines = (recipe / "README.md").read_text(encoding="utf-8").splitlines()
    text = " ".join(line for line in lines[1:] if line and not line.startswith("#"))
    return text.partition(": ")[0].partition(". ")[0].rstrip(".") + "."
