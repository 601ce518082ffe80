"""What others have named, on our screen."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from longshore.cli import main
from longshore.system.printable import printable
from longshore.ui.tables import write_table
from longshore.ui.words import left_words, one_line


def test_text_of_others_gives_the_terminal_no_orders() -> None:
    assert printable("\x1b[31mCA\x07\nTX\u202e\x9b2J") == "[31mCA TX2J"
    assert one_line("a\x1b[2J\r\nb") == "a[2J b"
    assert printable("Köln → 東京") == "Köln → 東京"


@pytest.mark.parametrize("screen", [100, 80])
def test_on_a_narrow_terminal_long_columns_give_way_and_short_names_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], screen: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(screen))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = (
        "each",
        "*/15 2-6 * * 1-5",
        "scraper India",
        "2026-11-16 21:34 UTC",
        "each_20261116_213400",
        "due: " + "x" * 60,
    )
    write_table(("name", "cron", "what", "next run", "last run", "state"), [row], cut=("what",))
    out = Text.from_ansi(capsys.readouterr().out).plain
    assert max(map(len, out.splitlines())) <= screen
    assert "name" in out
    assert "each " in out
    assert "*/15 2-6" in out
    assert "2026-11-16 2" in out


def test_on_a_narrow_terminal_what_tells_rows_apart_stays_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    names = [f"http://ann:***@127.0.0.1:{port}" for port in (9001, 9002)]
    rows = [(name, "rests 60 min", "6", "6", "", "23 s ago", f"3 × {'x' * 40}") for name in names]
    columns = ("proxy", "state", "requests", "failed", "closed until", "changed", "why")

    write_table(columns, rows, right=("requests",), cut=("why",), keep=("proxy",), drop=("why",))
    out = Text.from_ansi(capsys.readouterr().out).plain
    assert max(map(len, out.splitlines())) <= 80
    assert all(f"{name}  rests 60 min" in out for name in names)
    assert "why" not in out, "little would be left of it"
    assert "closed until" not in out, "nothing is in it"

    monkeypatch.setenv("COLUMNS", "110")
    write_table(columns, rows, right=("requests",), cut=("why",), keep=("proxy",), drop=("why",))
    assert "3 × xxxxxxxxxxxx" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", ["jobs", "status r", "show 1", "assign --run r", "fleet pages.py --run r --workers 1 --until-done --yes"]
)
def test_no_command_shows_a_name_raw(shell: Any, command: str) -> None:
    job = {"payload": {"url": "https://a.org/1"}, "key": "k\x1b[2J\nk", "partition": "\x1b[31mCA\nTX"}
    shell.write("jobs.jsonl", json.dumps(job))
    assert shell("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r").returncode == 0
    done = shell(*command.split())
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    if command != "jobs":
        assert "[31mCA TX" in done.stdout


@pytest.mark.parametrize(
    ("seconds", "soonest", "words"),
    [
        (0.4, None, "nearly done"),
        (0.4, 0.1, "nearly done"),
        (190, None, "3 min 10 s left"),
        (190, 125, "2 min 05 s to 3 min 10 s left"),
        (5, 0.2, "1 s to 5.0 s left"),
    ],
)
def test_the_time_left_in_words(seconds: float, soonest: float | None, words: str) -> None:
    assert left_words(seconds, soonest) == words


def test_a_password_on_the_command_line_is_warned_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (["--queue", "sqlite://anna:tide@host/q.db"], ["--queue=sqlite://anna:tide@host/q.db"]):
        assert main(["status", *given]) == 2
        warning = capsys.readouterr().err.splitlines()[0]
        assert "can read the password in 'sqlite://anna:***@host/q.db' with ps" in warning
        assert "LONGSHORE_QUEUE" in warning
