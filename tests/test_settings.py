"""Settings: where a value comes from, and what is said when it cannot be used (A10, B16, E3, E16)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.errors import SettingsError
from longshore.settings import DEFAULT_QUEUE, TABLE, Settings, export_dotenv, queue_url, resolve, unknown_variables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def settle(folder: Path, environ: dict[str, str] | None = None, **cli: object) -> Settings:
    return resolve(cli, environ=environ or {}, folder=folder)


def test_without_any_source_every_setting_has_its_default(folder: Path) -> None:
    settings = settle(folder)
    assert settings.queue == DEFAULT_QUEUE
    assert (settings.lease_seconds, settings.poll_interval, settings.concurrency) == (300.0, 10.0, 8)
    assert (settings.max_work, settings.max_empty_polls, settings.max_idle_hours) == (0, 0, 0.0)
    assert all(settings.source(name).level == "default" for name in TABLE)


def test_each_source_wins_over_the_one_below_it(folder: Path) -> None:
    (folder / "longshore.toml").write_text("[longshore]\nconcurrency = 2\n")
    settings = settle(folder)
    assert (settings.concurrency, str(settings.source("concurrency"))) == (2, "concurrency (longshore.toml)")

    (folder / ".env").write_text("LONGSHORE_CONCURRENCY=3\n")
    settings = settle(folder)
    assert (settings.concurrency, str(settings.source("concurrency"))) == (3, "LONGSHORE_CONCURRENCY (.env)")

    environ = {"LONGSHORE_CONCURRENCY": "4"}
    settings = settle(folder, environ)
    assert (settings.concurrency, str(settings.source("concurrency"))) == (4, "LONGSHORE_CONCURRENCY (environment)")

    settings = settle(folder, environ, concurrency=5)
    assert (settings.concurrency, str(settings.source("concurrency"))) == (5, "--concurrency")


@pytest.mark.parametrize(
    ("variable", "value", "name", "expected"),
    [
        ("MAX_WORK_ORDERS", "50", "max_work", 50),
        ("MAX_RUNS", "7", "max_work", 7),
        ("MAX_CONSECUTIVE_FAILURES", "20", "max_empty_polls", 20),
        ("LONGSHORE_MAX_FAILURES", "20", "max_empty_polls", 20),
        ("MAX_IDLE_HOURS", "2.0", "max_idle_hours", 2.0),
        ("WORKER_ID", "kitchen", "worker_id", "kitchen"),
        ("POLL_INTERVAL", "3", "poll_interval", 3.0),
        ("WORKER_COUNT", "10", "workers", 10),
        ("DEBUG", "true", "debug", True),
        ("MIN_DELAY_SECONDS", "8", "min_delay_seconds", 8.0),
        ("MAX_DELAY_SECONDS", "20", "max_delay_seconds", 20.0),
        ("PROXY_FILE", "proxies.txt", "proxy_file", "proxies.txt"),
        ("ENVIRONMENT", "testing", "profile", "testing"),
        ("TASKMANAGER_API_URL", "https://tasks.example/api", "queue", "https://tasks.example/api"),
        ("QUEUE_DIR", "/srv/queue", "queue", "dir:///srv/queue"),
        ("GITHUB_REPO_URL", "https://github.com/a/b.git", "queue", "git+https://github.com/a/b.git"),
    ],
)
def test_the_old_names_are_understood(folder: Path, variable: str, value: str, name: str, expected: object) -> None:
    settings = settle(folder, {variable: value})
    assert getattr(settings, name) == expected
    assert settings.source(name).name == variable


def test_a_git_remote_becomes_a_queue_url_however_it_is_written() -> None:
    assert queue_url("GITHUB_REPO_URL", "git@github.com:a/b.git") == "git+ssh://git@github.com/a/b.git"
    assert queue_url("GITHUB_REPO_URL", "git+https://x/y") == "git+https://x/y"
    assert queue_url("GITHUB_REPO_URL", "/srv/repo.git") == "git+file:///srv/repo.git"


def test_two_variables_that_name_the_queue_differently_are_refused_by_both_names(folder: Path) -> None:
    environ = {"GITHUB_REPO_URL": "https://me:hunter2@github.com/a/b", "QUEUE_DIR": "/srv/queue"}
    with pytest.raises(SettingsError) as refused:
        settle(folder, environ)
    message = str(refused.value)
    assert "GITHUB_REPO_URL" in message
    assert "QUEUE_DIR" in message
    assert "/srv/queue" in message
    assert "hunter2" not in message


def test_the_queue_may_not_be_named_differently_by_the_environment_and_the_dotenv_file(folder: Path) -> None:
    (folder / ".env").write_text("QUEUE_DIR=/srv/queue\n")
    with pytest.raises(SettingsError, match=r"LONGSHORE_QUEUE \(environment\).*QUEUE_DIR \(\.env\)"):
        settle(folder, {"LONGSHORE_QUEUE": "sqlite:///a.db"})


def test_the_command_line_decides_between_two_names_of_the_queue(folder: Path) -> None:
    environ = {"GITHUB_REPO_URL": "https://github.com/a/b", "QUEUE_DIR": "/srv/queue"}
    assert settle(folder, environ, queue="sqlite:///mine.db").queue == "sqlite:///mine.db"


def test_two_names_that_mean_the_same_queue_are_no_conflict(folder: Path) -> None:
    environ = {"LONGSHORE_QUEUE": "dir:///srv/queue", "QUEUE_DIR": "/srv/queue"}
    assert settle(folder, environ).queue == "dir:///srv/queue"


@pytest.mark.parametrize(
    ("ours", "variable", "theirs"),
    [
        ("./q", "QUEUE_DIR", "./q"),
        ("./q", "QUEUE_DIR", "q"),
        ("dir://q/", "QUEUE_DIR", "./q"),
        ("{here}/q", "QUEUE_DIR", "q"),
        ("https://h/a/b.git", "GITHUB_REPO_URL", "https://h/a/b.git"),
        ("git+https://h/a/b.git", "GITHUB_REPO_URL", "https://h/a/b.git/"),
        ("git@h:a/b.git", "GITHUB_REPO_URL", "git@h:a/b.git"),
    ],
)
def test_two_spellings_of_one_queue_are_no_conflict(folder: Path, ours: str, variable: str, theirs: str) -> None:
    ours = ours.format(here=Path.cwd())
    assert settle(folder, {"LONGSHORE_QUEUE": ours, variable: theirs}).queue == ours
    with pytest.raises(SettingsError, match="name the queue differently"):
        settle(folder, {"LONGSHORE_QUEUE": ours, variable: f"{theirs}2"})


def test_the_environment_may_name_another_queue_than_the_toml_file(folder: Path) -> None:
    (folder / "longshore.toml").write_text('[longshore]\nqueue = "sqlite:///file.db"\n')
    assert settle(folder, {"LONGSHORE_QUEUE": "sqlite:///env.db"}).queue == "sqlite:///env.db"


def test_a_variable_set_to_nothing_switches_off_the_one_in_the_file(folder: Path) -> None:
    (folder / ".env").write_text("QUEUE_DIR=/srv/queue\n")
    assert settle(folder, {"QUEUE_DIR": ""}).queue == DEFAULT_QUEUE


def test_two_aliases_that_disagree_are_refused_and_the_canonical_name_decides(folder: Path) -> None:
    aliases = {"MAX_WORK_ORDERS": "5", "MAX_RUNS": "7"}
    with pytest.raises(SettingsError, match=r"MAX_WORK_ORDERS.*5.*MAX_RUNS.*7"):
        settle(folder, aliases)
    assert settle(folder, {**aliases, "LONGSHORE_MAX_WORK": "9"}).max_work == 9


def test_the_former_name_of_a_setting_is_still_read(folder: Path) -> None:
    former = {"LONGSHORE_MAX_FAILURES": "5"}
    assert unknown_variables(environ=former, folder=folder) == []
    # As it was while this name was the canonical one, it goes before the names that other programs use.
    assert settle(folder, {**former, "MAX_CONSECUTIVE_FAILURES": "7"}).max_empty_polls == 5
    assert settle(folder, {**former, "LONGSHORE_MAX_EMPTY_POLLS": "9"}).max_empty_polls == 9
    (folder / "longshore.toml").write_text("[longshore]\nmax_failures = 6\n[longshore.profiles.p]\nmax_failures = 8\n")
    assert settle(folder).max_empty_polls == 6
    assert settle(folder, {"LONGSHORE_PROFILE": "p"}).max_empty_polls == 8
    (folder / "longshore.toml").write_text("[longshore]\nmax_failures = 6\nmax_empty_polls = 6\n")
    with pytest.raises(SettingsError, match="sets max_empty_polls twice"):
        settle(folder)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("LONGSHORE_LEASE_SECONDS", "abc", "a number of at least 1"),
        ("LONGSHORE_LEASE_SECONDS", "0.5", "a number of at least 1"),
        ("LONGSHORE_LEASE_SECONDS", "nan", "a number of at least 1"),
        ("LONGSHORE_CONCURRENCY", "2.5", "a whole number of at least 1"),
        ("LONGSHORE_DEBUG", "perhaps", "true or false"),
        ("LONGSHORE_LOG_FORMAT", "xml", "one of auto, text, json"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_source_and_what_is_allowed(
    folder: Path, variable: str, value: str, said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        settle(folder, {variable: value})
    message = str(refused.value)
    assert variable in message
    assert f"'{value}'" in message
    assert said in message
    assert "environment" in message


def test_a_debug_variable_that_another_program_means_is_ignored(folder: Path) -> None:
    settings = settle(folder, {"DEBUG": "app:*"})
    assert (settings.debug, settings.source("debug").level) == (False, "default")
    (folder / ".env").write_text("DEBUG=*\n")
    assert settle(folder).debug is False
    assert settle(folder, {"DEBUG": "app:*", "LONGSHORE_DEBUG": "yes"}).debug is True


def test_a_variable_that_is_called_like_a_setting_and_is_none_is_named_with_the_nearest(folder: Path) -> None:
    (folder / ".env").write_text("LONGSHORE_WORKER=3\nLEASE=5\n")
    ours = {"LONGSHORE_LEASE_SECONDS": "3", "LONGSHORE_TEST_PG_BIN": "x", "LONGSHORE_LONG": "1"}
    strange = {"LONGSHORE_LEESE": "3", "LONGSHORE_ZZZ": "1"}
    assert unknown_variables(environ={**ours, **strange}, folder=folder) == [
        "unknown setting LONGSHORE_LEESE; did you mean LONGSHORE_LEASE_SECONDS?",
        "unknown setting LONGSHORE_WORKER; did you mean LONGSHORE_WORKERS?",
        "unknown setting LONGSHORE_ZZZ; `longshore config` lists all settings.",
    ]


def test_the_variable_that_marks_the_children_of_a_worker_is_known(folder: Path) -> None:
    from longshore.worker.children.guardian import MARK

    assert unknown_variables(environ={MARK: "1"}, folder=folder) == []


def test_a_lease_of_one_second_is_allowed(folder: Path) -> None:
    assert settle(folder, {"LONGSHORE_LEASE_SECONDS": "1"}).lease.total_seconds() == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[longshore]\nleese_seconds = 3\n", "Did you mean 'lease_seconds'"),
        ("[longshore]\nlease_seconds = '3 minutes'\n", "takes a number of at least 1"),
        ("[longshore]\nqueue = 5\n", "takes text"),
        ("[longshore]\nconcurrency = true\n", "takes a whole number"),
        ("lease_seconds = 3\n", "under [longshore]"),
        ("[longshore\n", "cannot be read"),
        ("longshore = 3\n", "must be a table"),
    ],
)
def test_a_fault_in_the_toml_file_is_named(folder: Path, text: str, said: str) -> None:
    (folder / "longshore.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        settle(folder)
    assert "longshore.toml" in str(refused.value)
    assert said in str(refused.value)


def test_a_virtual_environment_called_dotenv_is_not_read_as_a_file(folder: Path) -> None:
    (folder / ".env").mkdir()
    assert settle(folder).concurrency == 8


def test_a_dotenv_file_that_is_no_text_is_named(folder: Path) -> None:
    (folder / ".env").write_bytes(b"A=\xff\xfe\xfa\n")
    with pytest.raises(SettingsError, match=r"\.env cannot be read"):
        settle(folder)


def test_a_handler_finds_its_own_variables_of_the_dotenv_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".env").write_text("YOUTUBE_API_KEY=from-file\nTAKEN=from-file\n")
    monkeypatch.setenv("TAKEN", "from-shell")
    monkeypatch.setenv("YOUTUBE_API_KEY", "to be restored after the test")
    monkeypatch.delenv("YOUTUBE_API_KEY")
    export_dotenv(folder)
    assert os.environ["YOUTUBE_API_KEY"] == "from-file"
    assert os.environ["TAKEN"] == "from-shell"


def test_a_setting_of_the_dotenv_file_is_not_put_into_the_environment_where_it_would_outlive_a_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".env").write_text("MAX_DELAY_SECONDS=20\nLONGSHORE_CONCURRENCY=3\n")
    for name in ("MAX_DELAY_SECONDS", "LONGSHORE_CONCURRENCY"):
        monkeypatch.delenv(name, raising=False)
    export_dotenv(folder)
    assert not {"MAX_DELAY_SECONDS", "LONGSHORE_CONCURRENCY"} & set(os.environ)


def test_changes_are_taken_over_with_their_sources_and_the_rest_stays(folder: Path) -> None:
    old = settle(folder, {"LONGSHORE_CONCURRENCY": "2", "LONGSHORE_LEASE_SECONDS": "60"})
    new = settle(folder, {"LONGSHORE_LEASE_SECONDS": "90"}, max_delay_seconds="5")
    mixed = old.with_changes(new, ["concurrency", "max_delay_seconds"])
    assert (mixed.concurrency, mixed.max_delay_seconds, mixed.lease_seconds) == (8, 5.0, 60.0)
    assert [mixed.source(name).level for name in ("concurrency", "max_delay_seconds", "lease_seconds")] == [
        "default",
        "command line",
        "environment",
    ]


def test_a_password_is_never_shown(folder: Path) -> None:
    settings = settle(folder, queue="postgresql://me:hunter2@db/x")
    assert settings.queue == "postgresql://me:hunter2@db/x"
    assert settings.shown("queue") == "postgresql://me:***@db/x"


def test_no_variable_stands_for_two_settings() -> None:
    names = [name for setting in TABLE.values() for name in setting.variables]
    assert len(names) == len(set(names))
