"""The recipe `videos`, end to end: replica, server and workers are real processes (E13, E15)."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.task_server import TaskServer, clean_environment
from tests.waiting import wait_until

RECIPES = Path(__file__).parents[2] / "recipes"


class Replica:
    """The replica as a process."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "videos.replica", "--port", "0", *options],
            cwd=RECIPES,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def read(self, name: str) -> Any:
        with urllib.request.urlopen(f"{self.url.removesuffix('/youtube/v3')}/{name}") as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def replica() -> Iterator[Replica]:
    made = Replica("--quota", "100000")
    yield made
    made.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TaskServer]:
    made = TaskServer(tmp_path)
    yield made
    made.kill()


def start(server: TaskServer, replica: Replica, **variables: str) -> subprocess.Popen[str]:
    given = {
        "TASKMANAGER_API_URL": server.url,
        "LONGSHORE_API_KEY": server.key,
        "YOUTUBE_API_URL": replica.url,
        "YOUTUBE_API_KEY": "replica-key",
        "LONGSHORE_LEASE_SECONDS": "2",
        "POLL_INTERVAL": "0.2",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "videos.worker"],
        cwd=RECIPES,
        env=clean_environment() | given | variables,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    try:
        _, err = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == code, err
    return err


def short(video: dict[str, Any]) -> dict[str, Any]:
    """A video as a search returns it."""
    return {name: video[name] for name in ("video_id", "title", "channel", "published_at")}


@pytest.mark.ledger("E13", "E15")
def test_every_video_of_the_truth_is_found_although_a_worker_is_killed(server: TaskServer, replica: Replica) -> None:
    truth = replica.read("truth.json")
    topics, deleted = truth["topics"], truth["deleted"]
    searches = {topic: server.create("youtube.search", search_query=topic, max_results=50) for topic in topics}
    ids = {topic: [video["video_id"] for video in videos] for topic, videos in topics.items()}
    batches = {topic: server.create("youtube.batch", video_ids=[*ids[topic], *deleted[:3]]) for topic in topics}
    singles = {topic: server.create("youtube.video", video_id=ids[topic][0]) for topic in topics}
    gone = server.create("youtube.video", video_id=deleted[0])
    old = server.create("youtube", search_query=next(iter(topics)))
    first = start(server, replica, WORKER_ID="first")
    assert first.stderr is not None
    while "Claimed work" not in first.stderr.readline():
        assert first.poll() is None
    first.kill()
    first.communicate()
    second = start(server, replica, WORKER_ID="second")
    tasks = [*searches.values(), *batches.values(), *singles.values(), gone, old]
    wait_until(lambda: all(server.task(each)["status"] in {"completed", "failed"} for each in tasks))
    second.terminate()
    finish(second)
    for topic, videos in topics.items():
        assert server.task(searches[topic])["result"]["data"] == [short(video) for video in videos[:50]]
        batch = server.task(batches[topic])["result"]
        assert batch["results"] == videos
        assert [each["error"] for each in batch["errors"]] == [f"There is no video {each}" for each in deleted[:3]]
        assert server.task(singles[topic])["result"]["data"] == videos[0]
    assert server.task(gone)["error"]["message"] == f"There is no video {deleted[0]}"
    assert server.task(gone)["attempts"] == 1
    assert len(server.task(old)["result"]["data"]) == 10


@pytest.mark.ledger("E4")
def test_wrong_parameters_fail_at_once_with_every_fault(server: TaskServer, replica: Replica) -> None:
    task = server.create("youtube.search", search_query="x" * 201, max_results=51, other=1)
    finish(start(server, replica, MAX_RUNS="1"))
    failed = server.task(task)
    assert (failed["status"], failed["attempts"], failed["error"]["error_type"]) == ("failed", 1, "validation")
    assert all(name in failed["error"]["message"] for name in ("search_query", "max_results", "other"))
    assert replica.read("counts.json")["spent"] == 0


def test_a_used_up_quota_is_waited_for_and_costs_no_attempt(server: TaskServer) -> None:
    replica = Replica("--quota", "100", "--reset-seconds", "1")
    try:
        tasks = [
            server.create("youtube.search", search_query=topic, max_results=5) for topic in ("tide tables", "café Ω")
        ]
        process = start(server, replica)
        wait_until(lambda: all(server.task(each)["status"] == "completed" for each in tasks))
        process.terminate()
        log = finish(process)
        assert "Postponed work" in log
        assert [server.task(each)["attempts"] for each in tasks] == [1, 1]
        # The worker asked once, and then waited: the second task did not ask in vain.
        assert replica.read("counts.json")["refused"] == 1
    finally:
        replica.stop()


@pytest.mark.ledger("E13")
def test_the_same_search_is_asked_once(server: TaskServer, replica: Replica) -> None:
    tasks = [server.create("youtube.search", search_query="tide tables", max_results=5) for _ in range(3)]
    finish(start(server, replica, MAX_RUNS="3"))
    assert {server.task(each)["status"] for each in tasks} == {"completed"}
    assert replica.read("counts.json")["spent"] == 100


@pytest.mark.parametrize("key", ["", "wrong"])
def test_a_missing_or_wrong_key_is_named(server: TaskServer, replica: Replica, key: str) -> None:
    task = server.create("youtube.search", search_query="tide tables")
    process = start(server, replica, YOUTUBE_API_KEY=key, MAX_RUNS="1")
    if not key:
        assert "YOUTUBE_API_KEY is not set" in finish(process, code=1)
        return
    finish(process)
    assert "keyInvalid" in server.task(task)["error"]["message"]
