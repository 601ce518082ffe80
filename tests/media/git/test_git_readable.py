"""The branch as a person reads it on a web page: names of files, messages of commits, the README."""

from __future__ import annotations

import re
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.media.git.state.branch_files import place_of
from longshore.media.git.state.job_label import label_of
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Selection

LAPTOP = WorkerId("office-laptop-2", "office-laptop-2/1")
HASH = "a" * 64


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "--git-dir", repository, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


@pytest.mark.ledger("A2")
async def test_files_are_named_after_jobs_and_commits_say_who_did_what(remote: Path, tmp_path: Path) -> None:
    queue = await GitQueue.open(f"git+file://{remote}", ManualClock(), tmp_path / "cache")
    names = ["comp_BRQR_1f33961e", "comp_ENPR_00aa11bb", "comp_ITSA_22cc33dd", "comp_ESLL_44ee55ff"]
    await queue.submit([new_job("competition", {"n": 1}, run="r", key=name) for name in names])
    want = Want(worker=LAPTOP, limit=5, lease=timedelta(seconds=60))
    leases = await queue.claim(want)
    await queue.submit([new_job("page", {"url": "https://Shop.example/items/42?session=secret#x"}, run="r")])
    leases += await queue.claim(want)
    broken = Failed(Failure("processing", "it broke", retryable=False))
    await queue.settle([Settlement(leases[0], Completed({})), *[Settlement(each, broken) for each in leases[3:]]])
    await queue.cancel(Selection(ids=frozenset({leases[1].job.id})))
    await queue.deregister(LAPTOP)
    await queue.close()
    paths = git(remote, "ls-tree", "-r", "--name-only", "longshore-1").splitlines()
    jobs = {path.split("/")[0]: Path(path).name.partition("~")[0] for path in paths if re.search(r"~\d{9}-", path)}
    assert jobs["completed_work"] == names[0]
    assert jobs["cancelled_work"] == names[1]
    assert jobs["active_work"] == names[2]
    assert any(path.startswith("failed_work/") and "/shop.example_items_42~" in path for path in paths)
    assert git(remote, "log", "--reverse", "--format=%s", "longshore-1").splitlines() == [
        "An empty queue",
        f"submit 4 jobs: {', '.join(names[:3])}, …",
        f"claim 4 jobs by office-laptop-2: {', '.join(names[:3])}, …",
        "submit 1 job: shop.example_items_42",
        "claim 1 job by office-laptop-2: shop.example_items_42",
        "complete 1 job by office-laptop-2: comp_BRQR_1f33961e; 1 more",
        "cancel 1 job",
    ]
    assert "fail 2 jobs by office-laptop-2: comp_ESLL_44ee55ff, shop.example_items_42" in git(
        remote, "log", "--format=%b", "longshore-1"
    )
    folders = {path.split("/")[0] for path in paths if "/" in path}
    readme = git(remote, "show", "longshore-1:README.md")
    assert not [folder for folder in folders if f"`{folder}/`" not in readme]


@pytest.mark.parametrize(
    ("key", "payload", "label"),
    [
        ("comp_BRQR_1f33961e", {}, "comp_BRQR_1f33961e"),
        ("São Paulo / 2024", {}, "S_o_Paulo_2024"),
        ("../../etc/passwd", {}, "etc_passwd"),
        ("~" * 300, {}, "job"),
        ("nul.json", {}, "_nul.json"),
        ("x" * 1_000_000, {}, "x" * 48),
        ("naïve\x1b[2J\nkey", {}, "na_ve_2J_key"),
        (HASH, {"url": "https://user:password@shop.example:8080/a/b?token=1"}, "shop.example_8080_a_b"),
        (HASH, {"url": "https://shop.example/"}, "shop.example"),
        (HASH, {"url": "not a url"}, "job"),
        (HASH, {"url": "https://shop.example/" + "deep/" * 50 + "last"}, "shop.example_deep_deep_deep_deep_last"),
        (HASH, {"url": "http:///con.html"}, "_con.html"),
        (HASH, {"url": "///aux"}, "_aux"),
        (HASH, {"n": 1}, "page"),
    ],
)
def test_a_label_is_the_key_or_the_address_and_safe_in_every_file_system(
    key: str, payload: dict[str, object], label: str
) -> None:
    assert label_of("page", key, payload) == label
    path = f"available_work/00000/00/{label}~000000001-1-{HASH[:32]}.json"
    place = place_of(path, "")
    assert place is not None
    assert (place.label, place.path) == (label, path)
    bare = place_of(path.replace(f"{label}~", ""), "")
    assert bare is not None
    assert bare.label == ""
