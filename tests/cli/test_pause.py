"""`longshore pause` and `longshore resume`."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from longshore.media import open_queue
from longshore.queue import Selection

Says = Callable[..., str]
Refused = Callable[..., str]


@pytest.fixture
def filled(here: Path, says: Says) -> None:
    (here / "urls.txt").write_text("https://a.org/1\n")
    says("submit", "page", "--urls-file", "urls.txt", "--run", "r")


@pytest.mark.usefixtures("filled")
def test_a_run_is_paused_listed_and_goes_on(says: Says) -> None:
    assert says("pause") == "Nothing is paused.\n"
    assert says("pause", "r") == "Run r is paused. To let it go on: longshore resume r\n"
    assert says("pause", "r") == "Run r is paused already. To let it go on: longshore resume r\n"
    assert says("pause").startswith("Run r is paused since 20")
    assert list(json.loads(says("pause", "--json"))) == ["r"]
    assert says("resume", "r") == "Run r goes on.\n"
    assert says("resume", "r") == "Run r was not paused.\n"


@pytest.mark.usefixtures("filled")
def test_everything_is_paused_and_goes_on(says: Says) -> None:
    assert says("pause", "--all") == "Everything is paused. To let it go on: longshore resume --all\n"
    assert says("resume", "r") == "Run r itself is not paused, but everything is: longshore resume --all\n"
    assert says("resume", "--all") == "Everything goes on.\n"


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("what", ["r", "--all"])
def test_the_command_that_ends_a_pause_names_the_queue_of_the_command_line(says: Says, what: str) -> None:
    queue = ("--queue", ".longshore/queue.db")
    (resume,) = re.findall("longshore (resume .*)", says("pause", what, *queue))
    assert shlex.split(resume) == ["resume", what, *queue]
    for command in (("status", "r"), ("estimate", "r")):
        assert f"longshore {resume} (since " in says(*command, *queue)
    assert says(*shlex.split(resume)) in {"Run r goes on.\n", "Everything goes on.\n"}
    assert says("pause") == "Nothing is paused.\n"


@pytest.mark.usefixtures("filled")
def test_that_everything_is_paused_names_the_queue_too(says: Says) -> None:
    queue = ("--queue", ".longshore/queue.db")
    says("pause", "--all", *queue)
    assert says("resume", "r", *queue).endswith(f"longshore resume --all {' '.join(queue)}\n")


@pytest.mark.usefixtures("filled")
def test_a_run_that_is_not_there_is_refused(refused: Refused) -> None:
    assert "There is no run 'x'" in refused("pause", "x")
    assert "Name a run, or say --all." in refused("resume")
    assert "Name a run, or say --all." in refused("pause", "r", "--all")


@pytest.mark.usefixtures("filled")
def test_a_run_that_is_gone_may_still_be_let_go(says: Says) -> None:
    says("pause", "r")
    says("cancel", "--run", "r", "--yes")

    async def prune() -> None:
        """As whoever dies before the notes of the run are gone, too."""
        queue = await open_queue("sqlite:///.longshore/queue.db")
        await queue.prune(Selection(run="r"))
        await queue.close()

    asyncio.run(prune())
    assert says("resume", "r") == "Run r goes on.\n"


@pytest.mark.usefixtures("filled")
def test_a_pause_goes_with_the_last_job_of_its_run(says: Says) -> None:
    says("pause", "r")
    says("cancel", "--run", "r", "--yes")
    says("prune", "--run", "r", "--yes")
    assert says("pause") == "Nothing is paused.\n"
