"""The branch: every commit is readable and a valid state of the whole queue (A1, A2, A3)."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import SystemClock
from longshore.errors import Failure
from longshore.extensions.transfer import Carried
from longshore.job import Job, NewJob, State
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.media.git.location import RepositoryLocation
from longshore.media.git.objects.mirror import TIP, Mirror
from longshore.media.git.sync.branch_sync import BranchSync
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Reaped, Selection, Submitted, each_job, totals

STATES = {
    "available_work": "pending",
    "retry_queue": "pending",
    "active_work": "claimed",
    "completed_work": "completed",
    "failed_work": "failed",
    "cancelled_work": "cancelled",
}
WORKER = """
import asyncio, sys
from pathlib import Path
from longshore.clock import SystemClock
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.outcome import Completed, Settlement

async def main(url, cache):
    queue = await GitQueue.open(url, SystemClock(), Path(cache))
    want = Want(worker=WorkerId.new(), limit=10)
    while leases := await queue.claim(want):
        answers = await queue.settle([Settlement(lease, Completed(lease.job.key)) for lease in leases])
        print(*(lease.job.key for lease, accepted in zip(leases, answers) if accepted))
    await queue.close()

asyncio.run(main(*sys.argv[1:]))
"""


def git(repository: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "--git-dir", str(repository), *arguments], check=True, capture_output=True, text=True
    ).stdout


def jobs(number: int) -> list[NewJob]:
    return [NewJob(run="r", kind="page", key=f"{n}", payload={"n": n}) for n in range(number)]


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


async def opened(remote: Path, cache: Path) -> GitQueue:
    return await GitQueue.open(f"git+file://{remote}", SystemClock(), cache)


def assert_every_commit_is_valid(remote: Path) -> int:
    """Check every commit of the history. Return the number of commits."""
    commits = git(remote, "rev-list", "--reverse", "longshore-1").split()
    last: dict[str, tuple[str, int]] = {}
    for commit in commits:
        paths = git(remote, "ls-tree", "-r", "--name-only", commit).splitlines()
        found = Counter[str]()
        seen: dict[str, tuple[str, int]] = {}
        for path in paths:
            folder, _, name = path.partition("/")
            if folder in STATES:
                identity = re.search(r"-([0-9a-f]{32})", name)
                assert identity is not None, path
                epoch = re.search(r"\.e(\d+)\.json$", name)
                assert identity[1] not in seen, f"{commit}: a job stands in two places"
                seen[identity[1]] = (STATES[folder], int(epoch[1]) if epoch else 0)
                found[STATES[folder]] += 1
        counted = Counter[str]()
        for path in paths:
            if path.startswith("lanes/"):
                lane = json.loads(git(remote, "cat-file", "blob", f"{commit}:{path}"))
                counted.update({state: lane[state] for state in set(STATES.values())})
        assert +counted == found, f"{commit}: the counters do not fit the files"
        for identity_, (state, epoch_) in last.items():
            now = seen[identity_]
            assert now[1] - epoch_ in ({1} if (state, now[0]) == ("pending", "claimed") else {0}), commit
            assert state != "completed" or now == (state, epoch_), f"{commit}: what is completed stays so"
        last = seen
    return len(commits)


@pytest.mark.parametrize(("apart", "number"), [(False, 400), (True, 160)], ids=["one machine", "eight machines"])
async def test_eight_workers_settle_each_job_once_and_every_commit_is_valid(
    remote: Path, tmp_path: Path, apart: bool, number: int
) -> None:
    host = await opened(remote, tmp_path / "host")
    await host.submit(jobs(number))
    workers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WORKER, f"git+file://{remote}", str(tmp_path / (f"w{n}" if apart else "w"))),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(8)
    ]
    outputs = [await worker.communicate() for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8, outputs
    settled = Counter(key for out, _ in outputs for key in out.decode().split())
    assert settled == Counter({f"{n}": 1 for n in range(number)})
    assert totals(await host.stats()).completed == number
    assert {done.result async for done in each_job(host, Selection())} == set(settled)
    rate = await host.claim_success_rate()
    assert 0 < rate <= 1
    print(f"claim success rate {rate:.0%}")
    await host.close()
    assert assert_every_commit_is_valid(remote) > 10


async def test_the_files_of_the_branch_are_readable(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "cache")
    await queue.submit(jobs(6))
    anna = WorkerId.new("anna")
    leases = await queue.claim(Want(worker=anna, limit=4))
    done, broken, again, _ = leases
    gone, retryable = Failure("processing", "gone", retryable=False), Failure("timeout", "slow")
    await queue.settle(
        [
            Settlement(done, Completed({"title": "Grüße"})),
            Settlement(broken, Failed(gone)),
            Settlement(again, Failed(retryable)),
        ]
    )
    await queue.cancel(Selection(ids=frozenset({"6"})))
    await queue.close()
    clone = tmp_path / "clone"
    git(remote, "clone", "--quiet", "--branch", "longshore-1", str(remote), str(clone))
    folders = {folder: len(list((clone / folder).rglob("*.json"))) for folder in STATES}
    assert folders == {
        "available_work": 1,
        "retry_queue": 1,
        "active_work": 1,
        "completed_work": 1,
        "failed_work": 1,
        "cancelled_work": 1,
    }
    (completed,) = (clone / "completed_work").rglob("*.json")
    shown = json.loads(completed.read_text())
    assert (shown["payload"], shown["result"], shown["worker"]) == ({"n": 0}, {"title": "Grüße"}, "anna")
    (held,) = (clone / "active_work").iterdir()
    assert held.name.startswith("anna~")
    assert "available_work" in (clone / "README.md").read_text()


async def test_other_branches_are_not_changed(remote: Path, tmp_path: Path) -> None:
    empty = git(remote, "hash-object", "-t", "tree", "-w", "/dev/null").strip()
    commit = git(
        remote, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit-tree", empty, "-m", "mine"
    ).strip()
    git(remote, "update-ref", "refs/heads/main", commit)
    before = git(remote, "rev-parse", "main")
    queue = await opened(remote, tmp_path / "cache")
    await queue.submit(jobs(1))
    await queue.close()
    assert git(remote, "rev-parse", "main") == before
    assert set(git(remote, "for-each-ref", "--format=%(refname:short)").split()) == {"longshore", "longshore-1", "main"}


async def test_reads_and_empty_changes_create_no_branch(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "cache")
    assert (await queue.stats(), await queue.jobs(Selection()), await queue.history("1")) == ([], [], [])
    assert (await queue.present_workers(), await queue.reap(), await queue.archived()) == ([], Reaped(), [])
    for operation in (queue.retry, queue.cancel, queue.prune, queue.archive):
        assert await operation(Selection()) == 0
    await queue.deregister(WorkerId.new("anna"))
    await queue.forget_history()
    assert await queue.claim(Want(worker=WorkerId.new("anna"))) == []
    assert git(remote, "for-each-ref") == ""
    assert queue.traffic.pushes == 0
    await queue.close()


async def test_a_queue_that_another_machine_creates_is_seen_by_a_queue_opened_before(
    remote: Path, tmp_path: Path
) -> None:
    early, other = await opened(remote, tmp_path / "early"), await opened(remote, tmp_path / "other")
    assert await early.stats() == []
    await asyncio.gather(other.submit(jobs(3)), early.submit(jobs(2)))
    assert totals(await early.stats()).pending == totals(await other.stats()).pending == 3
    await early.close()
    await other.close()
    assert_every_commit_is_valid(remote)


async def test_a_deleted_queue_is_empty_and_the_next_submission_creates_it_again(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "cache")
    await queue.submit(jobs(3))
    for branch in ("longshore", "longshore-1"):
        git(remote, "update-ref", "-d", f"refs/heads/{branch}")
    assert await queue.claim(Want(worker=WorkerId.new())) == []
    assert await queue.stats() == []
    assert await queue.submit(jobs(2)) == Submitted(new=2, duplicates=0)
    assert totals(await queue.stats()).pending == 2
    await queue.close()


async def test_a_process_that_dies_between_setting_the_two_refs_overwrites_no_commit(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = await opened(remote, tmp_path / "here"), await opened(remote, tmp_path / "there")
    await here.submit(jobs(1))
    await there.submit(jobs(5))
    set_ref = Mirror.set_ref
    marks: list[str] = []

    def dies_at_the_second(self: Mirror, ref: str, oid: str) -> None:
        marks.append(ref)
        if len(marks) == 2:
            raise KeyboardInterrupt
        set_ref(self, ref, oid)

    mirror = Mirror(RepositoryLocation(f"git+file://{remote}"), tmp_path / "here")
    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "set_ref", dies_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            BranchSync(mirror, SystemClock()).open()
    mirror.close()
    await here.submit([NewJob(run="r", kind="page", key="mine", payload={})])
    assert totals(await there.stats()).pending == 6
    await here.close()
    await there.close()
    assert_every_commit_is_valid(remote)


async def test_a_commit_that_does_not_descend_from_the_confirmed_one_is_never_pushed(
    remote: Path, tmp_path: Path
) -> None:
    here, there = await opened(remote, tmp_path / "here"), await opened(remote, tmp_path / "there")
    await here.submit(jobs(1))
    mirror = Mirror(RepositoryLocation(f"git+file://{remote}"), tmp_path / "here")
    old = mirror.ref(TIP)
    await there.submit(jobs(5))
    assert totals(await here.stats()).pending == 5
    mirror.set_ref(TIP, old)
    mirror.close()
    await here.submit([NewJob(run="r", kind="page", key="mine", payload={})])
    assert totals(await there.stats()).pending == 6
    await here.close()
    await there.close()
    assert_every_commit_is_valid(remote)


async def test_transferred_jobs_are_added_in_one_valid_commit(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "cache")
    await queue.submit(jobs(2))
    common: dict[str, Any] = {"id": "x", "run": "r", "kind": "page", "payload": {}, "epoch": 3}
    ended: dict[str, Any] = {"settled_at": 1_700_000_000.0, "worker": "wanda"}
    carried = [Carried(Job(**common, key=state, state=State(state), **ended)) for state in set(STATES.values())]
    before = queue.traffic.pushes
    assert await queue.take_over(carried) == Submitted(new=5, duplicates=0)
    assert queue.traffic.pushes - before == 1
    leases = await queue.claim(Want(worker=WorkerId.new(), limit=10))
    assert sorted(lease.epoch for lease in leases) == [1, 1, 4, 4]
    await queue.settle([Settlement(lease, Completed(None, tuple(jobs(4)))) for lease in leases])
    assert {job.depth for job in await queue.jobs(Selection(states=frozenset({State.PENDING})))} == {1}
    await queue.close()
    assert_every_commit_is_valid(remote)


async def test_machines_with_separate_mirrors_lose_no_work_of_each_other(remote: Path, tmp_path: Path) -> None:
    here, there = await opened(remote, tmp_path / "here"), await opened(remote, tmp_path / "there")
    await asyncio.gather(here.submit(jobs(30)), there.submit(jobs(40)))
    assert totals(await here.stats()).pending == totals(await there.stats()).pending == 40
    one, two = await asyncio.gather(
        here.claim(Want(worker=WorkerId.new("h"), limit=20)), there.claim(Want(worker=WorkerId.new("t"), limit=20))
    )
    assert len({lease.job.key for lease in one + two}) == 40
    answers = await asyncio.gather(
        here.settle([Settlement(lease, Completed("h")) for lease in one]),
        there.settle([Settlement(lease, Completed("t")) for lease in two]),
    )
    assert all(answers[0] + answers[1])
    assert totals(await there.stats()).completed == 40
    await here.close()
    await there.close()
    assert_every_commit_is_valid(remote)


async def test_a_claim_gets_its_jobs_although_numbers_were_assigned_again(remote: Path, tmp_path: Path) -> None:
    here, there = await opened(remote, tmp_path / "here"), await opened(remote, tmp_path / "there")
    await here.submit([NewJob(run="r", kind="page", key="0", payload={})])
    await there.submit([NewJob(run="r", kind="secret", key="1", payload={})])
    await here.submit(
        [NewJob(run="r", kind="page", key="2", payload={})]
    )  # first as number 2, which is refused, then as number 3
    want = Want(worker=WorkerId.new(), limit=5, kinds=frozenset({"page"}))
    assert [lease.job.key for lease in await here.claim(want)] == ["0", "2"]
    assert [lease.job.key for lease in await here.claim(Want(worker=WorkerId.new(), limit=5))] == ["1"]
    await here.close()
    await there.close()
    assert_every_commit_is_valid(remote)


async def test_lanes_that_are_numbered_again_stay_distinct(remote: Path, tmp_path: Path) -> None:
    here, there = await opened(remote, tmp_path / "here"), await opened(remote, tmp_path / "there")
    kinds = [f"k{n}" for n in range(8)]
    await here.submit([NewJob(run="r", kind="first", key="0", payload={})])
    # Both add the same lanes in a different order: those of the second one are discarded and made again.
    await there.submit([NewJob(run="r", kind=kind, key="there", payload={}) for kind in reversed(kinds)])
    for key in ("here", "again"):
        await here.submit([NewJob(run="r", kind=kind, key=key, payload={}) for kind in kinds])
    counted = [(count.kind, count.pending) for count in await here.stats()]
    assert counted == [("first", 1), *((kind, 3) for kind in kinds)]
    await here.close()
    await there.close()
    assert_every_commit_is_valid(remote)


async def test_calls_that_arrive_together_share_a_push(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "cache")
    before = queue.traffic.pushes
    await asyncio.gather(*(queue.submit([job]) for job in jobs(50)))
    assert queue.traffic.pushes - before <= 2
    assert totals(await queue.stats()).pending == 50
    await queue.close()
