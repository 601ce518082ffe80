"""Starting: which run, which jobs, which settings; and that two starts never share a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from longshore import handler
from longshore.clock import ManualClock
from longshore.errors import InputFileError, NotFoundError, QueueUnavailableError, UsageError
from longshore.extensions.shared_state import StateEntry
from longshore.handlers.handler import Handler
from longshore.job import NewJob
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection, Submitted, totals
from longshore.runs.scrapers.registry import Scraper
from longshore.runs.scrapers.resume import ResumeState, ScraperCheckpoints
from longshore.runs.scrapers.start import (
    Start,
    SubmittedStart,
    prepare,
    settings_for,
    submit_start,
    worker_command,
    worker_variables,
)
from longshore.runs.sources import Generated
from longshore.runs.submit.input_files import InputFile, InputFormat
from longshore.runs.submit.submission import Submission, SubmissionPlan, new_run_id, submit_file
from longshore.settings import TABLE, resolve


@handler("page", retries=1)
async def page(job: object) -> None:
    """A handler for the tests."""


assert isinstance(page, Handler)
PAGE: Handler = page


class Scene:
    """A scraper in a folder, and starts of it."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder = folder
        self.queue = MemoryQueue()
        self.clock = ManualClock()
        self.checkpoints = ScraperCheckpoints(folder / "scrapers", "India", "memory://")
        (folder / "urls.txt").write_text("https://a.org/1\nhttps://a.org/2\n")
        self.scraper = Scraper("India", handler="india.py", mode=mode, source=str(folder / "urls.txt"))

    async def start(
        self, source: InputFile | Generated | None = None, run: str | None = None, *, resume: bool = False
    ) -> SubmittedStart:
        start = Start(self.scraper, PAGE, self.checkpoints, source, run, resume)
        return await submit_start(self.queue, prepare(start), self.clock)

    def file(self, *urls: str) -> InputFile:
        path = self.folder / "other.txt"
        path.write_text("".join(f"{url}\n" for url in urls))
        return InputFile(str(path), InputFormat.URLS)


@pytest.fixture
def single(tmp_path: Path) -> Scene:
    return Scene(tmp_path, "single")


@pytest.fixture
def distributed(tmp_path: Path) -> Scene:
    return Scene(tmp_path, "distributed")


async def test_a_start_makes_a_run_of_the_source_and_notes_it(single: Scene) -> None:
    started = await single.start()
    assert started == SubmittedStart(Submission("20231114_221320", 2, 0), resumed=False)
    standing = single.checkpoints.load()
    assert standing is not None
    assert (standing.run, standing.submitted, standing.named) == ("20231114_221320", True, None)
    [one, _] = await single.queue.jobs(Selection())
    assert (one.kind, one.max_attempts) == ("page", 2)


async def test_jobs_that_are_named_go_before_those_of_the_registry(single: Scene) -> None:
    await single.start(single.file("https://b.org/"))
    [job] = await single.queue.jobs(Selection())
    assert job.payload == {"url": "https://b.org/"}


async def test_a_scraper_without_a_source_needs_jobs_to_be_named(single: Scene) -> None:
    single.scraper = Scraper("India", handler="india.py")
    with pytest.raises(UsageError, match="India has no source of jobs"):
        await single.start()
    assert single.checkpoints.load() is None


async def test_a_malformed_source_starts_nothing(single: Scene) -> None:
    with pytest.raises(InputFileError, match="Nothing was submitted"):
        await single.start(single.file("oops"))
    with pytest.raises(InputFileError, match="There are no jobs"):
        await single.start(Generated(list))
    assert single.checkpoints.load() is None
    assert await single.queue.stats() == []


async def test_resuming_without_anything_to_resume_is_refused(single: Scene) -> None:
    with pytest.raises(NotFoundError, match="India has no run to resume here"):
        await single.start(resume=True)
    with pytest.raises(NotFoundError, match="no run 'mine' of India in this queue"):
        await single.start(run="mine", resume=True)


async def test_a_run_that_is_all_in_the_queue_is_resumed_without_reading_the_source(single: Scene) -> None:
    started = await single.start()
    (single.folder / "urls.txt").unlink()
    again = await single.start(resume=True)
    assert again == SubmittedStart(Submission(started.submission.run_id), resumed=True)


class LostQueue(MemoryQueue):
    """Goes away in the middle of a submission."""

    left = 1

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        if not self.left:
            raise QueueUnavailableError("gone")
        self.left -= 1
        await super().submit(jobs[:1])
        raise QueueUnavailableError("gone")


async def test_a_start_that_died_while_submitting_is_gone_on_with_from_the_file_that_was_named(single: Scene) -> None:
    lost = single.queue = LostQueue()
    with pytest.raises(QueueUnavailableError):
        await single.start(single.file("https://b.org/1", "https://b.org/2", "https://b.org/3"))
    assert totals(await lost.stats()).total == 1
    lost.submit = lambda jobs: MemoryQueue.submit(lost, jobs)  # type: ignore[method-assign]
    started = await single.start(resume=True)
    assert (started.submission.submitted, started.submission.duplicates, started.resumed) == (2, 1, True)
    assert {job.payload["url"] for job in await lost.jobs(Selection())} == {f"https://b.org/{n}" for n in (1, 2, 3)}


async def test_jobs_of_a_program_that_were_not_all_submitted_must_be_given_again(single: Scene) -> None:
    lost = single.queue = LostQueue()
    urls = Generated(["https://b.org/1", "https://b.org/2"])
    with pytest.raises(QueueUnavailableError):
        await single.start(urls)
    with pytest.raises(UsageError, match="Give them again"):
        await single.start(resume=True)
    lost.submit = lambda jobs: MemoryQueue.submit(lost, jobs)  # type: ignore[method-assign]
    assert (await single.start(urls, resume=True)).submission.submitted == 1


async def test_a_new_start_says_which_run_it_leaves_and_that_one_can_still_be_resumed(single: Scene) -> None:
    first = (await single.start()).submission.run_id
    start = Start(single.scraper, PAGE, single.checkpoints)
    assert prepare(start).left == first
    second = (await single.start()).submission.run_id
    assert second != first
    assert (await single.start(resume=True)).submission.run_id == second
    assert (await single.start(run=first, resume=True)).submission.run_id == first


async def test_a_distributed_run_is_resumed_by_submitting_what_is_new(distributed: Scene) -> None:
    first = await distributed.start()
    with (distributed.folder / "urls.txt").open("a") as file:
        file.write("https://a.org/3\n")
    again = await distributed.start(resume=True)
    assert again.submission == Submission(first.submission.run_id, 1, 2)
    await distributed.queue.cancel(Selection())
    with pytest.raises(NotFoundError, match=f"is finished.* add to it: --run {first.submission.run_id}"):
        await distributed.start(resume=True)
    assert (await distributed.start(run=first.submission.run_id)).submission == Submission(
        first.submission.run_id, 0, 3
    )
    prepared = prepare(Start(distributed.scraper, PAGE, distributed.checkpoints))
    assert prepared.left is None, "its jobs are in the queue: nothing is left of the start"


async def test_only_the_last_distributed_run_is_kept_in_mind(distributed: Scene) -> None:
    for _ in range(3):
        await distributed.start()
    assert len(list(distributed.checkpoints.folder.iterdir())) == 1


async def test_a_job_of_a_partition_that_the_scraper_has_not_is_refused(single: Scene) -> None:
    single.scraper = Scraper("India", handler="india.py", partitions=["North"])
    source = single.folder / "jobs.jsonl"
    source.write_text('{"payload": {"n": 1}, "partition": "Nroth"}\n')
    with pytest.raises(InputFileError, match="partition 'Nroth', which is not one of the scraper's: North"):
        await single.start(InputFile(str(source), InputFormat.JOBS))


def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    checkpoint = ScraperCheckpoints(tmp_path, "India", "postgresql://me:hush@a.org/db")
    checkpoint.save(ResumeState("r"))
    [path] = checkpoint.folder.iterdir()
    assert "hush" not in path.read_text()
    path.write_text("{")
    with pytest.raises(UsageError, match=r"r\.json cannot be read: .*remove it"):
        checkpoint.load()


@pytest.fixture
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in TABLE.values():
        for name in setting.variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("nothing_set")
def test_the_settings_of_a_scraper_go_before_the_files_and_after_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "longshore.toml").write_text("[longshore]\nconcurrency = 2\nbatch_size = 3\n")
    scraper = Scraper("India", settings={"concurrency": 4, "lease_seconds": 20, "workers": 3, "tor": True})
    monkeypatch.setenv("LONGSHORE_LEASE_SECONDS", "60")
    settings = settings_for(scraper, {"workers": "1"})
    assert (settings.concurrency, settings.batch_size, settings.lease_seconds, settings.workers) == (4, 3, 60, 1)
    assert worker_variables(scraper, settings) == {"LONGSHORE_CONCURRENCY": "4", "LONGSHORE_TOR": "true"}


@pytest.mark.usefixtures("nothing_set")
def test_the_workers_command_has_the_scrapers_settings_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"concurrency": 4, "host_delay": "8-20", "workers": 3, "contact": "me & you"}
    scraper = Scraper("India", handler="my india.py", settings=settings)
    secret = "postgresql://me:hush@a.org/db"
    monkeypatch.setenv("LONGSHORE_QUEUE", secret)
    expected = (
        "LONGSHORE_HOST_DELAY=8-20 LONGSHORE_CONTACT='me & you' longshore work 'my india.py' --run r --until-done "
        "--concurrency 4"
    )
    assert worker_command("longshore", scraper, "r", resolve()) == expected
    assert worker_command("longshore", scraper, "r", resolve({"queue": secret})) == expected
    named = worker_command("longshore", scraper, "r", resolve({"queue": "dir:///my queue"}))
    assert named == f"{expected} --queue 'dir:///my queue'"


@pytest.mark.usefixtures("nothing_set")
def test_what_the_environment_says_goes_before_the_scrapers_settings_in_the_workers_command_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scraper = Scraper("India", handler="india.py", settings={"concurrency": 4, "lease_seconds": 20, "host_delay": "8"})
    monkeypatch.setenv("LONGSHORE_CONCURRENCY", "8")
    (tmp_path / ".env").write_text("LONGSHORE_HOST_DELAY=2\n")
    settings = settings_for(scraper, {})
    command = worker_command("longshore", scraper, "r", settings)
    assert command == "longshore work india.py --run r --until-done --lease-seconds 20"
    # Typed here, it is what a worker of single mode would have.
    typed = resolve({"lease_seconds": "20"})
    assert [getattr(typed, name) for name in scraper.settings] == [getattr(settings, name) for name in scraper.settings]


@pytest.mark.usefixtures("nothing_set")
def test_the_profile_of_a_start_is_that_of_its_workers() -> None:
    scraper = Scraper("India", handler="india.py", settings={"profile": "testing"})
    command = "longshore work india.py --run r --until-done --profile"
    asked = settings_for(scraper, {"profile": "development"})
    assert worker_command("longshore", scraper, "r", asked) == f"{command} development"
    assert worker_command("longshore", scraper, "r", settings_for(scraper, {})) == f"{command} testing"


async def test_many_starts_in_one_second_never_share_a_run() -> None:
    queue, clock = MemoryQueue(), ManualClock()
    runs = await asyncio.gather(*(new_run_id(queue, clock) for _ in range(20)))
    assert len(set(runs)) == 20
    assert min(runs) == "20231114_221320"


async def test_an_id_is_not_given_again_after_its_reservation_went() -> None:
    queue, clock = MemoryQueue(), ManualClock()
    run = await new_run_id(queue, clock)
    await submit_file(queue, Generated(["https://a.org/"]), SubmissionPlan(run=run, kind="page"))
    shelf = await queue.read_entries("run_ids")
    await queue.swap_entries("run_ids", [StateEntry(note.name, note.version, None) for note in shelf.entries])
    assert await new_run_id(queue, clock) == f"{run}_2"


async def test_reservations_do_not_pile_up() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    for _ in range(3):
        await new_run_id(queue, clock)
    clock.advance(3601)
    run = await new_run_id(queue, clock)
    assert [note.name for note in (await queue.read_entries("run_ids")).entries] == [run]
