"""Which medium a URL, a plain path or a plain git remote opens; and what opens none (A18)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from longshore.errors import ForeignQueueError, QueueError, SettingsError, UnknownSchemeError
from longshore.job import new_job
from longshore.media import full_url, migrate, open_queue
from longshore.media.git.location import RepositoryLocation
from longshore.queue import totals


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def repository(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    subprocess.run(["git", "init", "--quiet", "--bare", "repo.git"], check=True)


def untouched(folder: Path) -> bool:
    return not list(folder.iterdir())


@pytest.mark.parametrize(
    ("plain", "url"),
    [
        ("./queue", "dir://queue"),
        ("queue/", "dir://queue"),
        ("../queue", "dir://../queue"),
        ("data/a b/queue", "dir://data/a b/queue"),
        ("/srv/queue", "dir:///srv/queue"),
        (r"C:\queue", r"dir://C:\queue"),
        (".", "dir://."),
        ("jobs.db", "sqlite:///jobs.db"),
        ("./jobs.sqlite", "sqlite:///jobs.sqlite"),
        ("/srv/jobs.sqlite3", "sqlite:////srv/jobs.sqlite3"),
        ("/srv/a b#1/queue.git", "git+file:///srv/a%20b%231/queue.git"),
    ],
)
def test_a_plain_path_is_spelled_out(plain: str, url: str) -> None:
    assert full_url(plain) == url


def test_a_tilde_is_the_home_folder() -> None:
    assert full_url("~/queue") == f"dir://{Path.home()}/queue"
    assert full_url("~/jobs.db") == f"sqlite:///{Path.home()}/jobs.db"
    assert full_url("~/queue.git") == f"git+file://{Path.home().resolve()}/queue.git"
    with pytest.raises(SettingsError, match="full path"):
        full_url("~nobody-of-this-name/queue")


def test_a_folder_that_is_called_like_a_file_is_a_folder(here: Path) -> None:
    assert full_url("./old.db") == "sqlite:///old.db"
    (here / "old.db").mkdir()
    assert full_url("./old.db") == "dir://old.db"


@pytest.mark.parametrize(
    ("plain", "git_url"),
    [
        ("https://github.com/team/queue.git", "https://github.com/team/queue.git"),
        ("https://github.com/team/queue.git/", "https://github.com/team/queue.git/"),
        ("HTTP://host:8080/queue.git", "http://host:8080/queue.git"),
        ("https://token@host/queue.git", "https://host/queue.git"),
        ("ssh://git@host:2222/team/queue", "ssh://git@host:2222/team/queue"),
        ("git@github.com:team/queue.git", "ssh://git@github.com/team/queue.git"),
        ("git@host:/srv/queue.git", "ssh://git@host/srv/queue.git"),
        ("file:///srv/queue.git", "file:///srv/queue.git"),
    ],
)
def test_a_plain_remote_is_a_git_queue(plain: str, git_url: str) -> None:
    assert RepositoryLocation(full_url(plain)).git_url == git_url


@pytest.mark.parametrize("url", ["sqlite:///x.db", "sqlite:/x.db", "dir://x.git", "git+https://h/q.git", "memory://"])
def test_a_url_is_left_as_it_is(url: str) -> None:
    assert full_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["sqlit:///x", "sqlit:x/y.db", "jobs", "", "redis://host/0", "file:///srv/queue", "git+ftp://h/q.git", "a:b/c"],
)
async def test_what_names_no_queue_is_refused_and_nothing_is_made(here: Path, url: str) -> None:
    with pytest.raises(UnknownSchemeError, match=r"No queue answers to '.*sqlite://, postgresql://"):
        await open_queue(url)
    assert untouched(here)


async def test_a_lone_word_is_told_how_a_folder_is_written() -> None:
    with pytest.raises(UnknownSchemeError, match=r"write \./jobs\Z"):
        await open_queue("jobs")


async def test_a_web_address_that_is_no_server_is_told_how_a_repository_is_written() -> None:
    with pytest.raises(SettingsError, match=r"ends in /api.* git\+https://host/queue\Z"):
        await open_queue("https://host/queue")


async def test_a_server_takes_no_login_in_its_url() -> None:
    with pytest.raises(SettingsError, match=r"https://me:\*\*\*@host/api.*LONGSHORE_API_KEY"):
        await open_queue("https://me:hunter2@host/api")


async def test_a_server_takes_only_requests_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGSHORE_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="longshore keys add"):
        await open_queue("https://host/api")


@pytest.mark.parametrize(
    ("name", "medium", "url"),
    [
        ("./queue", "directory", "dir://{here}/queue"),
        ("{here}/queue", "directory", "dir://queue"),
        ("jobs.db", "sqlite", "sqlite:///{here}/jobs.db"),
        ("./repo.git", "git", "git+file://{here}/repo.git"),
    ],
)
@pytest.mark.usefixtures("repository")
async def test_jobs_go_in_by_the_plain_name_and_are_found_by_the_whole_one(
    here: Path, name: str, medium: str, url: str
) -> None:
    plain = await open_queue(name.format(here=here))
    assert plain.traits.name == medium
    await plain.submit([new_job("page", {"n": 1})])
    await plain.close()
    whole = await open_queue(url.format(here=here))
    assert totals(await whole.stats()).pending == 1
    await whole.close()


async def test_a_path_to_something_else_is_left_as_it_is(here: Path) -> None:
    (here / "thesis").mkdir()
    (here / "thesis" / "thesis.tex").write_text("x")
    with pytest.raises(ForeignQueueError, match=r"thesis\.tex"):
        await open_queue("./thesis")


async def test_migrating_makes_a_schema_once_and_a_folder_has_none(here: Path) -> None:
    before, after = await migrate("jobs.db") or (-1, -1)
    assert before == 0
    assert after > 0
    assert await migrate("sqlite:///jobs.db") == (after, after)
    assert await migrate("./queue") is None
    assert not (here / "queue").exists()
    (here / "thesis.db").write_text("a thesis, and no database: " * 100)
    with pytest.raises(QueueError, match=r"thesis\.db"):
        await migrate("./thesis.db")
    with pytest.raises(UnknownSchemeError):
        await migrate("sqlit:///jobs.db")
