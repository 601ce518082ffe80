"""Gather what is to be published: one handler file, or a folder of code."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from longshore.errors import PublishedCodeError
from longshore.runs.published.handler_code import MOST_FILES, MOST_UNPACKED, CodeFile, HandlerCode, check
from longshore.runs.published.requirements import pinned_requirements

REQUIREMENTS = "requirements.txt"
_USUAL_ENTRIES = ("handlers.py", "pages.py", "main.py")
_LEFT_OUT_FOLDERS = frozenset({"__pycache__", "logs", "node_modules", "venv"})
_LEFT_OUT_ENDINGS = (".pyc", ".pyo", ".db", ".db-shm", ".db-wal", ".sqlite", ".pem", ".key", ".log", ".part")
"""Queues, logs and keys: they are no code, and keys must not be published by mistake."""


def gather(path: Path, *, entry: str | None = None, requirements: Path | None = None) -> HandlerCode:
    """Return the code of a handler file or a folder. Raise `PublishedCodeError` if it cannot be published as it is.

    `entry` is the handler file in the folder; without it, a name that is usual or the only Python file. Without a file
    of `requirements`, the `requirements.txt` of the folder counts.
    """
    try:
        if path.is_dir():
            files = _of_folder(path)
            listed = requirements or (path / REQUIREMENTS if (path / REQUIREMENTS).is_file() else None)
            first = _entry(path, [name for name in files if name.endswith(".py")], entry)
        else:
            if entry is not None:
                raise PublishedCodeError("--entry names a file in a folder. Publish the folder, or leave it out.")
            files, listed, first = _of_file(path), requirements, path.name
        lines = [] if listed is None else listed.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise PublishedCodeError(f"{error.filename or path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise PublishedCodeError(f"{listed} is not text in UTF-8.") from error
    code = HandlerCode(
        entry=first,
        requirements=pinned_requirements(lines, str(listed)),
        files=tuple(files[name] for name in sorted(files)),
    )
    check(code)
    return code


def _of_file(path: Path) -> dict[str, CodeFile]:
    if path.suffix != ".py" or not path.is_file():
        raise PublishedCodeError(f"{path} is neither a Python file nor a folder. Name a file that ends in .py.")
    content = path.read_bytes()
    if beside := _imported_beside(path, content):
        raise PublishedCodeError(
            f"{path.name} imports {beside}, which is beside it. Publish the folder with both: longshore publish "
            f"{path.parent if str(path.parent) != '.' else '.'}"
        )
    return {path.name: CodeFile(path.name, content)}


def _imported_beside(path: Path, content: bytes) -> str:
    """Return the name of a module that the file imports and that lies beside it; empty if there is none."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError) as error:
        raise PublishedCodeError(f"{path}: {error}") from error
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    for module in sorted({name.partition(".")[0] for name in modules} - {"", path.stem}):
        if (path.parent / f"{module}.py").is_file() or (path.parent / module / "__init__.py").is_file():
            return module
    return ""


def _of_folder(folder: Path) -> dict[str, CodeFile]:
    files: dict[str, CodeFile] = {}
    size = 0
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not _is_left_out(here / name))
        for name in sorted(names):
            path = here / name
            if name.startswith(".") or name.lower().endswith(_LEFT_OUT_ENDINGS) or path == folder / REQUIREMENTS:
                continue
            if path.is_symlink() or not path.is_file():
                raise PublishedCodeError(f"{path} is a link or no regular file. Only files can be published.")
            size += path.stat().st_size
            if len(files) == MOST_FILES or size > MOST_UNPACKED:
                raise PublishedCodeError(
                    f"{folder} has too much in it: {MOST_FILES:,} files and {MOST_UNPACKED:,} bytes is the limit. "
                    "Publish a folder that has code only."
                )
            stored = path.relative_to(folder).as_posix()
            files[stored] = CodeFile(stored, path.read_bytes(), os.access(path, os.X_OK) and os.name != "nt")
    return files


def _is_left_out(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in _LEFT_OUT_FOLDERS
    return hidden or (folder / "pyvenv.cfg").exists() or folder.is_symlink()


def _entry(folder: Path, python: list[str], entry: str | None) -> str:
    if entry is not None:
        if entry not in python:
            raise PublishedCodeError(f"There is no Python file '{entry}' in {folder}. It has: {', '.join(python)}.")
        return entry
    usual = [name for name in _USUAL_ENTRIES if name in python]
    top = [name for name in python if "/" not in name]
    if len(usual) == 1 or len(top) == 1:
        return (usual if len(usual) == 1 else top)[0]
    which = ", ".join(top) if top else "no Python files"
    raise PublishedCodeError(f"Which file of {folder} has the handlers? Name it with --entry. There are: {which}.")
