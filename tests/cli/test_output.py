"""What others have named, on our screen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longshore.cli.output import one_line, printable


def test_text_of_others_gives_the_terminal_no_orders() -> None:
    assert printable("\x1b[31mCA\x07\nTX\u202e\x9b2J") == "[31mCA TX2J"
    assert one_line("a\x1b[2J\r\nb") == "a[2J b"
    assert printable("Köln → 東京") == "Köln → 東京"


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
