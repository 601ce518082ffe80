"""A plain handler sees only the variables it needs, if the user says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longshore.job import new_job
from longshore.lease import WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection
from longshore.settings import resolve
from longshore.worker.children.child_environment import child_environment
from longshore.worker.kit.config import KitConfig

OURS = {
    "PATH": "/bin",
    "HOME": "/home/ann",
    "LC_ALL": "C",
    "LONGSHORE_QUEUE": "postgresql://ann:geheim@host/jobs",
    "LONGSHORE_RECORDS_DATABASE": "postgresql://ann:geheim@host/records",
    "PGPASSWORD": "geheim",
    "AWS_SECRET_ACCESS_KEY": "geheim",
    "SHOP_USER": "ann",
    "SHOP_TOKEN": "t",
}


def test_without_the_setting_a_handler_sees_everything_as_before() -> None:
    assert child_environment(OURS, None) == OURS


def test_with_the_setting_a_handler_sees_no_password_that_it_is_not_given() -> None:
    seen = child_environment(OURS, ("SHOP_*",))
    assert "geheim" not in repr(seen)
    assert seen == {name: OURS[name] for name in ("PATH", "HOME", "LC_ALL", "SHOP_USER", "SHOP_TOKEN")}


def test_an_empty_setting_passes_only_what_programs_need() -> None:
    settings = resolve({"pass_env": ","})
    assert KitConfig.of(settings, WorkerId.new("w")).pass_env == ()
    assert set(child_environment(OURS, ())) == {"PATH", "HOME", "LC_ALL"}


def test_no_pattern_of_the_needed_variables_matches_a_secret() -> None:
    secrets = ("PGPASSWORD", "DATABASE_URL", "GITHUB_TOKEN", "LONGSHORE_GIT_PASSWORD", "HTTPS_PROXY", "API_KEY")
    assert child_environment(dict.fromkeys(secrets, "geheim"), ()) == {}


HANDLERS = """
import os
from longshore import handler

@handler("sees")
def sees(job):
    return sorted(value for name, value in os.environ.items() if name.startswith(("SHOP_", "TEST_SECRET")))
"""


async def test_a_handler_in_a_real_child_process_sees_what_it_was_given(
    memory: MemoryQueue, run_worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_SECRET_PASSWORD", "geheim")
    monkeypatch.setenv("SHOP_NAME", "fish")
    file = tmp_path / "seeing.py"
    file.write_text(HANDLERS)
    await memory.submit([new_job("sees", {"n": 1})])
    await run_worker(memory, handler_file=file, kit=KitConfig(pass_env=("SHOP_*",), folder=str(tmp_path)))
    (job,) = await memory.jobs(Selection())
    assert job.result == ["fish"]
