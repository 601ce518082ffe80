"""`longshore archive`: what is old is packed, and still there; and the rates `status` ends with (A3, A13, A14)."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock, SystemClock
from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.git import GitQueue
from longshore.outcome import Completed, Failed, Settlement

Says = Callable[..., str]

QUEUE = ("--queue", "./queue.git")


@pytest.fixture
def repository(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue with four jobs that completed: two about a hundred days ago, two now. One failed, one is pending."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    subprocess.run(["git", "init", "--quiet", "--bare", "queue.git"], check=True)
    long_ago = ManualClock(SystemClock().now() - timedelta(days=100).total_seconds())

    async def put() -> None:
        for clock, first in ((long_ago, 0), (SystemClock(), 2)):
            queue = await open_queue("./queue.git", clock=clock)
            await queue.submit([new_job("page", {"n": n}, run="r") for n in range(first, first + 2)])
            leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=2))
            await queue.settle([Settlement(lease, Completed({"ok": True}), 0.5) for lease in leases])
            await queue.close()
        queue = await open_queue("./queue.git")
        await queue.submit([new_job("page", {"n": n}, run="r") for n in range(4, 6)])
        [lease] = await queue.claim(Want(worker=WorkerId.new("w"), limit=1))
        failure = Failure(error_type="timeout", message="too slow", retryable=False)
        await queue.settle([Settlement(lease, Failed(failure), 0.5)])
        await queue.close()

    asyncio.run(put())
    return here / "queue.git"


def files(repository: Path) -> list[str]:
    """The files of the queue as it stands on its newest branch."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "--git-dir", str(repository), *arguments], check=True, capture_output=True, text=True
        ).stdout

    branch = json.loads(git("show", "longshore:longshore.json"))["branch"]
    return git("ls-tree", "-r", "--name-only", branch).split()


def test_old_completed_jobs_are_packed_and_still_counted(repository: Path, says: Says) -> None:
    before = json.loads(says("status", "r", "--json", *QUEUE))
    first, head, month = says("archive", *QUEUE).splitlines()
    assert first == "2 jobs were packed."
    assert head.split() == ["month", "jobs", "files", "size"]
    assert re.fullmatch(r"\d{4}-\d\d +2 +1 +\d+ bytes", month)
    packed = [name for name in files(repository) if name.startswith("archive/")]
    assert len(packed) == 1
    assert len([name for name in files(repository) if name.startswith("completed_work/")]) == 2
    assert json.loads(says("status", "r", "--json", *QUEUE)) == before
    again = says("archive", *QUEUE).splitlines()
    assert again[0] == "No completed jobs are older than 30d and not archived yet: nothing was packed."
    assert again[1:] == [head, month]


def test_how_old_is_said_by_an_option_and_statistics_have_their_sum(repository: Path, says: Says) -> None:
    done = json.loads(says("archive", "--older-than", "0s", "--json", *QUEUE))
    assert (done["packed"], done["jobs"], done["files"]) == (4, 4, 2)
    assert [month["jobs"] for month in done["months"]] == [2, 2]
    assert done["size"] == sum(month["size"] for month in done["months"]) > 0
    assert says("archive", "--stats", *QUEUE).splitlines()[-1].split()[:3] == ["all", "4", "2"]


def test_statistics_alone_change_nothing(repository: Path, says: Says) -> None:
    before = files(repository)
    assert says("archive", "--stats", *QUEUE) == "The archive is empty.\n"
    assert json.loads(says("archive", "--stats", "--json", *QUEUE)) == {"jobs": 0, "files": 0, "size": 0, "months": []}
    assert files(repository) == before


def test_archiving_leaves_history_behind(repository: Path, says: Says) -> None:
    def commits() -> int:
        listed = ["git", "--git-dir", str(repository), "for-each-ref", "--format=%(refname)", "refs/heads/longshore-*"]
        branches = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()
        counted = ["git", "--git-dir", str(repository), "rev-list", "--count"]
        return min(int(subprocess.run([*counted, b], check=True, capture_output=True).stdout) for b in branches)

    assert commits() > 5
    says("archive", *QUEUE)
    assert commits() == 1


def test_prune_takes_old_jobs_from_the_archive_too(repository: Path, says: Says) -> None:
    says("archive", "--older-than", "0s", *QUEUE)
    assert says("prune", "--older-than", "90d", "--yes", *QUEUE) == "2 jobs are removed.\n"
    assert json.loads(says("archive", "--stats", "--json", *QUEUE))["jobs"] == 2
    assert says("prune", "--run", "r", "--yes", *QUEUE) == "3 jobs are removed.\n"
    assert says("archive", "--stats", *QUEUE) == "The archive is empty.\n"


def test_a_queue_without_an_archive_names_prune(here: Path, refused: Callable[..., str]) -> None:
    message = refused("archive")
    assert "sqlite:///.longshore/queue.db has no archive" in message
    assert "longshore prune --older-than 90d" in message
    assert list(here.iterdir()) == []


def test_an_age_that_is_none_is_refused(here: Path, refused: Callable[..., str]) -> None:
    assert "--older-than cannot be 'old'" in refused("archive", "--older-than", "old")


def test_status_ends_with_the_rates_that_are_known(repository: Path, says: Says) -> None:
    rates = "completion rate 83%, success rate 80%, claim success rate 100%"
    assert says("status", *QUEUE).splitlines()[-1] == rates
    assert says("status", "r", *QUEUE).splitlines()[-1] == f"{rates}, 0.0 jobs/hour over 100 days 0 h"
    whole = json.loads(says("status", "--json", *QUEUE))
    assert whole["completion_rate"] == pytest.approx(5 / 6)
    assert (whole["success_rate"], whole["claim_success_rate"]) == (0.8, 1.0)


def test_lost_races_lower_the_claim_success_rate(repository: Path, says: Says) -> None:
    async def race() -> None:
        # A mirror each, as on two machines.
        mirrors = [repository.parent / machine for machine in ("here", "there")]
        queues = [await GitQueue.open(f"git+file://{repository}", SystemClock(), mirror) for mirror in mirrors]
        await queues[0].submit([new_job("page", {"n": n}, run="s") for n in range(200)])
        while not any(queue.traffic.lost_races for queue in queues):
            assert any(await asyncio.gather(*(queue.claim(Want(worker=WorkerId.new("w"))) for queue in queues)))
        for queue in queues:
            await queue.close()

    asyncio.run(race())
    assert 0 < json.loads(says("status", "--json", *QUEUE))["claim_success_rate"] < 1


def test_a_queue_that_counts_no_races_has_no_such_rate(here: Path, says: Says) -> None:
    (here / "urls.txt").write_text("https://a.org/1\n")
    says("submit", "page", "--urls-file", "urls.txt")
    assert says("status").splitlines()[-1] == "completion rate 0%"
    assert "claim_success_rate" not in json.loads(says("status", "--json"))


@pytest.mark.parametrize(
    ("conditions", "packed"),
    [
        (["--run", "r"], 4),
        (["--kind", "page,doc"], 4),
        (["--kind", "doc"], 0),
        (["--partition", "CA"], 0),
        (["--error", "time*"], 0),
        (["--run", "r", "--yes"], 4),
    ],
)
def test_the_options_say_which_jobs_are_packed(
    repository: Path, says: Says, conditions: list[str], packed: int
) -> None:
    assert json.loads(says("archive", "--older-than", "0s", "--json", *conditions, *QUEUE))["packed"] == packed


def test_a_run_that_is_not_there_is_not_packed(repository: Path, refused: Callable[..., str]) -> None:
    assert "There is no run 'x'" in refused("archive", "--run", "x", *QUEUE)
