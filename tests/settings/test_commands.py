"""Profiles and settings on the command line: `config` shows them, and `run` passes them on to its workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longshore.cli import main
from longshore.runs.local.campaign import Campaign
from longshore.settings import TABLE, resolve


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for setting in TABLE.values():
        for name in setting.variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("flag", ["--profile", "--environment"])
def test_config_shows_what_comes_from_the_profile(here: Path, capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert main(["config", "--json", flag, "development"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["max_work"] | {"variables": []} == {
        "value": 5,
        "source": "profile",
        "name": "development",
        "variables": [],
    }
    assert (shown["profile"]["source"], shown["stagger"]["value"]) == ("command line", "2-5")


def test_an_unknown_profile_is_refused_in_one_message(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--profile", "moon"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("longshore: There is no profile 'moon'")
    assert error.count("\n") == 1


def test_the_workers_of_a_run_have_its_profile_and_look_up_what_may_change_themselves(here: Path) -> None:
    (here / ".env").write_text("LONGSHORE_CONCURRENCY=3\n")
    campaign = Campaign("run", Path("handlers.py"), resolve({"profile": "testing"}), here)
    arguments = campaign.commands()[0].arguments
    assert arguments[arguments.index("--profile") + 1] == "testing"
    assert "--concurrency" not in arguments
    assert "LONGSHORE_CONCURRENCY" not in campaign.commands()[0].environment


def test_what_the_command_line_of_a_run_said_is_passed_on_to_its_workers(here: Path) -> None:
    said = {"concurrency": "3", "min_delay_seconds": 0.5, "max_delay_seconds": 2}
    arguments = Campaign("run", Path("handlers.py"), resolve(said), here).commands()[0].arguments
    given = [arguments[arguments.index(TABLE[name].flag) + 1] for name in said]
    assert given == ["3", "0.5", "2"]
