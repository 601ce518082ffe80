"""What is opened is a queue of ours, or one clear message says why not; files of others stay as they are."""

# ruff: noqa: ASYNC220, ASYNC221, ASYNC240 - a test has nothing else to do while it waits for a file or a child

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import SystemClock
from longshore.errors import (
    ForeignQueueError,
    MissingQueueError,
    NewerSchemaError,
    QueueError,
    QueueFullError,
    QueueUnavailableError,
    SettingsError,
)
from longshore.job import new_job
from longshore.media import open_queue
from longshore.media.sqlite import SqliteQueue, database, schema
from longshore.media.sqlite.location import path_of
from longshore.media.sqlite.select import prepare
from longshore.queue import Queue, Selection, totals


async def refusal(path: Path, error: type[QueueError]) -> str:
    with pytest.raises(error) as caught:
        await open_queue(f"sqlite:///{path}")
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_three_slashes_are_a_relative_path_and_four_an_absolute_one() -> None:
    assert path_of("sqlite:///some/queue.db") == Path("some/queue.db")
    assert path_of("sqlite:////var/lib/queue.db") == Path("/var/lib/queue.db")
    assert path_of("sqlite:///~/queue.db") == Path.home() / "queue.db"
    assert path_of("sqlite:///a b%20c.db") == Path("a b%20c.db")


@pytest.mark.parametrize("url", ["sqlite://queue.db", "sqlite:///", "sqlite:///:memory:", "sqlite:///q.db?mode=ro"])
def test_a_url_that_names_no_file_is_refused_with_what_to_write_instead(url: str) -> None:
    with pytest.raises(SettingsError, match=r"Write|Name|Leave out"):
        path_of(url)


async def test_missing_folders_are_made(tmp_path: Path) -> None:
    queue = await open_queue(f"sqlite:///{tmp_path}/a/b/queue.db")
    await queue.close()
    assert (tmp_path / "a/b/queue.db").is_file()


async def test_a_file_that_is_not_sqlite_is_named_and_left_as_it_is(file: Path) -> None:
    file.write_text("dear diary, " * 100)
    assert "not an SQLite file" in await refusal(file, ForeignQueueError)
    assert file.read_text() == "dear diary, " * 100


async def test_a_database_of_something_else_is_named_and_left_as_it_is(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE bookmark (url TEXT)")
    before = file.read_bytes()
    assert "of another program" in await refusal(file, ForeignQueueError)
    assert file.read_bytes() == before


async def test_a_queue_of_a_newer_longshore_is_refused(file: Path) -> None:
    await (await open_queue(f"sqlite:///{file}")).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    assert "Upgrade" in await refusal(file, NewerSchemaError)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER UPDATE ON job BEGIN DELETE FROM content; END",
        "CREATE TRIGGER roll_forget2 AFTER DELETE ON worker BEGIN DELETE FROM job; END",
        "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
    ],
)
async def test_a_queue_with_statements_of_others_is_refused_before_they_run(file: Path, statement: str) -> None:
    await (await open_queue(f"sqlite:///{file}")).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute(statement)
    assert "which Longshore never makes" in await refusal(file, ForeignQueueError)


async def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in await refusal(tmp_path, ForeignQueueError)


async def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    assert "not a folder" in await refusal(tmp_path / "plain" / "queue.db", ForeignQueueError)


async def test_an_empty_file_becomes_a_queue(file: Path) -> None:
    file.touch()
    queue = await open_queue(f"sqlite:///{file}")
    assert await queue.stats() == []
    await queue.close()


async def test_a_migration_that_fails_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = ["CREATE TABLE first (a);", "CREATE TABLE second (a); CREATE TABLE second (a);"]
    monkeypatch.setattr(schema, "_MIGRATIONS", scripts)
    monkeypatch.setattr(schema, "VERSION", 2)
    await refusal(file, QueueError)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        assert db.execute("PRAGMA user_version").fetchone() == (0,)


async def test_an_older_queue_is_brought_to_the_newest_schema_with_its_jobs(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await open_queue(f"sqlite:///{file}")
    await queue.submit([new_job("page", {"n": 1}, run="r")])
    await queue.close()
    monkeypatch.setattr(schema, "_MIGRATIONS", [*schema._MIGRATIONS, "CREATE TABLE later (a); -- the end"])
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    queue = await open_queue(f"sqlite:///{file}")
    assert totals(await queue.stats()).pending == 1
    await queue.close()
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert db.execute("SELECT count(*) FROM later").fetchone() == (0,)


OPEN_AND_SUBMIT = """
import asyncio, sys
from longshore.job import new_job
from longshore.media import open_queue

async def main(url, name):
    queue = await open_queue(url)
    await queue.submit([new_job("page", {"by": name}, run="r")])
    await queue.close()

sys.stdin.read()
asyncio.run(main(*sys.argv[1:]))
"""


async def test_eight_processes_open_a_new_file_at_once(file: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_AND_SUBMIT, f"sqlite:///{file}", str(number)], stdin=subprocess.PIPE
        )
        for number in range(8)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
    assert [child.wait(60) for child in children] == [0] * 8
    queue = await open_queue(f"sqlite:///{file}")
    assert totals(await queue.stats()).pending == 8
    await queue.close()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    # Not pytest's own: an ordinary user must be able to get there.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


OPEN_AS_NOBODY = """
import asyncio, os, sys
from longshore.errors import ReadOnlyQueueError
from longshore.media import open_queue, sqlite

if os.geteuid() == 0:
    os.setuid(65534)
try:
    asyncio.run(open_queue(sys.argv[1]))
except ReadOnlyQueueError as error:
    print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="rights of POSIX")
@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o755, 0o444), (0o555, 0o666), (0o555, None)])
async def test_what_cannot_be_written_to_is_said_at_once(
    public_folder: Path, folder_mode: int, file_mode: int | None
) -> None:
    file = public_folder / "queue.db"
    if file_mode is not None:
        await (await open_queue(f"sqlite:///{file}")).close()
        file.chmod(file_mode)
    public_folder.chmod(folder_mode)
    child = subprocess.run(
        [sys.executable, "-c", OPEN_AS_NOBODY, f"sqlite:///{file}"], capture_output=True, text=True, check=True
    )
    assert str(file) in child.stdout
    assert "cannot be written to" in child.stdout


async def test_a_full_disk_is_said_and_loses_nothing(file: Path) -> None:
    opened = await database.Database.open(file, prepare)
    queue: Queue = SqliteQueue(opened, SystemClock())
    await queue.submit([new_job("page", {"n": 0}, run="r")])
    await opened.read(lambda db: db.execute("PRAGMA max_page_count = 40").fetchone())
    with pytest.raises(QueueFullError, match="full"):
        await queue.submit([new_job("page", {"n": n, "text": "x" * 1000}, run="r") for n in range(1, 1000)])
    await opened.read(lambda db: db.execute("PRAGMA max_page_count = 4000000").fetchone())
    assert totals(await queue.stats()).pending == 1
    assert (await queue.submit([new_job("page", {"n": 1}, run="r")])).new == 1
    await queue.close()


async def test_a_lock_that_is_never_given_up_makes_the_queue_unavailable(
    queue: Queue, tables: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT", timedelta(milliseconds=20))
    tables.execute("BEGIN IMMEDIATE")
    with pytest.raises(QueueUnavailableError, match="locked") as caught:
        await queue.submit([new_job("page", {}, run="r")])
    assert caught.value.retryable
    assert await queue.stats() == []
    tables.execute("ROLLBACK")
    assert (await queue.submit([new_job("page", {}, run="r")])).new == 1


async def test_a_damaged_file_is_said_to_be_damaged(file: Path) -> None:
    queue = await open_queue(f"sqlite:///{file}")
    await queue.submit([new_job("page", {"n": n}, run="r") for n in range(500)])
    await queue.close()
    with file.open("r+b") as content:
        content.seek(4096)
        content.write(b"\xff" * (file.stat().st_size - 4096))
    with pytest.raises(QueueError, match="damaged"):
        await (await open_queue(f"sqlite:///{file}")).jobs(Selection())
    gc.collect()


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_taken_away_ends_the_work_on_it(file: Path, replaced: bool) -> None:
    queue = await open_queue(f"sqlite:///{file}")
    try:
        await queue.submit([new_job("page", {"n": 1}, run="r")])
        file.rename(file.with_name("elsewhere"))
        if replaced:
            await (await open_queue(f"sqlite:///{file}")).close()
        for call in (queue.submit([new_job("page", {"n": 2}, run="r")]), queue.stats()):
            with pytest.raises(QueueError, match="was removed or replaced while it was in use"):
                await call
    finally:
        await queue.close()


async def test_a_file_that_was_away_for_a_moment_can_be_used_again(file: Path) -> None:
    queue = await open_queue(f"sqlite:///{file}")
    try:
        file.rename(file.with_name("elsewhere"))
        with pytest.raises(MissingQueueError):
            await queue.submit([new_job("page", {"n": 1}, run="r")])
        file.with_name("elsewhere").rename(file)
        assert (await queue.submit([new_job("page", {"n": 1}, run="r")])).new == 1
    finally:
        await queue.close()


async def test_a_process_that_goes_into_another_folder_keeps_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = await open_queue("sqlite:///queue.db")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    try:
        assert (await queue.submit([new_job("page", {"n": 1}, run="r")])).new == 1
    finally:
        await queue.close()


async def test_a_closed_queue_says_so(file: Path) -> None:
    queue = await open_queue(f"sqlite:///{file}")
    await queue.close()
    await queue.close()
    with pytest.raises(QueueError, match="closed"):
        await queue.stats()


async def test_a_queue_taken_through_a_fork_says_so_instead_of_hanging(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(QueueError, match="fork"):
        await queue.stats()
