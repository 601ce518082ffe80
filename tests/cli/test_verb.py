"""Values as verbs get them: what Typer itself would make of each, without Pydantic where it is not needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from longshore.cli import app as cli_app
from longshore.cli.app import VERBS, command
from longshore.cli.verb import coerce_on_use

TYPED = [
    "",
    " ",
    "word",
    "-",
    "0",
    "7",
    "-3",
    "1.5",
    "1e3",
    "yes",
    "true",
    "a,b",
    "~/x",
    "é",
    "folder",
    "file",
    "locked",
]
"""What people type, for any option there is."""


def heard(parameter: Any, value: Any) -> tuple[str, Any]:
    """The value that a verb gets, with its type; or the error in the person's words."""
    ctx = typer.Context(typer.main.get_command(typer.Typer(callback=lambda: None, invoke_without_command=True)))
    try:
        found = parameter.process_value(ctx, value)
    except Exception as error:  # noqa: BLE001  whatever it is, both must say the same
        said = getattr(error, "format_message", None)
        return type(error).__name__, said() if said else str(error)
    return type(found).__name__, found


def parameters(verb: str) -> dict[str, Any]:
    return {each.name: each for each in command().commands[verb].params}


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_every_verb_takes_and_refuses_what_typer_does(
    verb: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "locked").touch(mode=0o000)
    ours = parameters(verb)
    monkeypatch.setattr(cli_app, "coerce_on_use", lambda parameter: None)
    typers = parameters(verb)
    assert ours.keys() == typers.keys()
    for name, parameter in ours.items():
        if name == "help":
            continue
        several = parameter.multiple or parameter.nargs != 1
        typed: list[Any] = [tuple(TYPED[n : n + 2]) for n in range(len(TYPED))] if several else [*TYPED]
        for value in [None, parameter.default, *([(), "word"] if several else [True, False, 7]), *typed]:
            assert heard(parameter, value) == heard(typers[name], value), (name, value)


def test_a_file_that_nobody_may_read_is_refused_as_typer_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the system is told to say no."""
    monkeypatch.setattr("os.access", lambda *_: False)
    ours = heard(parameters("work")["file"], "/")
    assert ours[0] == "BadParameter"
    assert "not readable" in ours[1]


def test_a_callback_of_an_option_is_called() -> None:
    calls: list[Any] = []

    def called(ctx: Any, parameter: Any, value: Any) -> str:
        calls.append(value)
        return "called"

    option = SimpleNamespace(
        type_descriptor=SimpleNamespace(annotation=str, parameter_info=typer.Option(None)),
        process_value=None,
        multiple=False,
        nargs=1,
        required=False,
        callback=called,
    )
    coerce_on_use(option)
    process: Any = option.process_value
    assert (process(None, None), process(None, "x"), calls) == ("called", "called", [None, "x"])


def test_with_a_typer_that_tells_no_types_everything_is_left_to_it() -> None:
    for described in ({}, {"type_descriptor": SimpleNamespace()}, {"type_descriptor": None}):
        option = SimpleNamespace(process_value=len, **described)
        coerce_on_use(option)
        assert option.process_value is len


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["--version"],
        ["jobs", "--limit", "3"],
        ["submit", "page", "--jobs-file", "jobs.jsonl"],
        ["fleet", "pages.py", "--dry-run"],
    ],
)
def test_a_command_does_not_import_what_it_does_not_use(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text("from longshore import handler\n\n@handler('page')\nasync def page(job): ...\n")
    (tmp_path / "jobs.jsonl").write_text('{"n": 1}')
    code = "import sys; from longshore.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert not {"aiohttp", "fastapi", "textual", "playwright"} & set(done.stderr.split())
    if "--limit" not in arguments:
        assert "pydantic" not in done.stderr.split()
