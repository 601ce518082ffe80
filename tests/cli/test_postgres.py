"""What a person sees who points the command at PostgreSQL: it works, or one message names the cause and the fix."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.services.postgres import PASSWORD, PostgresServer, free_port

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


def execute(server: PostgresServer, statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(server.url)
        await connection.execute(statements)
        await connection.close()

    asyncio.run(run())


def has_schema(server: PostgresServer, name: str) -> bool:
    async def ask() -> bool:
        connection = await asyncpg.connect(server.url)
        try:
            return bool(await connection.fetchval("select exists (select from pg_namespace where nspname = $1)", name))
        finally:
            await connection.close()

    return asyncio.run(ask())


def refusal(shell: Shell, url: str, *arguments: str, code: int = 1) -> str:
    """The one message; it shows no password and no traceback."""
    done = shell(*arguments, LONGSHORE_QUEUE=url) if url else shell(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stderr
    return done.stderr


COMMANDS = [("status",), ("submit", "page", "--urls-file", "urls.txt"), ("jobs",)]


@pytest.fixture(autouse=True)
def _urls(shell: Shell) -> None:
    shell.urls(3)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_wrong_password(shell: Shell, server: PostgresServer, command: tuple[str, ...]) -> None:
    url = server.url_of("postgres", password="wrong-and-secret")
    told = refusal(shell, url, *command)
    assert "password" in told.lower()
    assert "wrong-and-secret" not in told


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_host_that_does_not_answer(shell: Shell, command: tuple[str, ...]) -> None:
    assert "Fix:" in refusal(shell, f"postgresql://u:{PASSWORD}@127.0.0.1:{free_port()}/x", *command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_database_that_is_not_there(shell: Shell, server: PostgresServer, command: tuple[str, ...]) -> None:
    assert "nowhere" in refusal(shell, server.url_of("nowhere"), *command)


LOOKING = [
    ("status",),
    ("jobs",),
    ("show", "1"),
    ("retry", "1", "--yes"),
    ("cancel", "1", "--yes"),
    ("prune", "--state", "completed", "--yes"),
    ("work", "pages.py", "--until-done"),
]


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_that_only_looks_makes_no_queue(
    shell: Shell, server: PostgresServer, command: tuple[str, ...]
) -> None:
    told = refusal(shell, f"{server.url}?schema=typo", *command, code=2)
    assert "There is no queue at" in told
    assert "`longshore submit` makes one." in told
    assert not has_schema(server, "typo")


def test_a_copy_from_a_queue_that_is_not_there_makes_neither(shell: Shell, server: PostgresServer) -> None:
    # Without its password, of which the command would warn in a line of its own.
    named = f"{server.url}?schema=typo".replace(f":{PASSWORD}@", "@")
    shell.environment["PGPASSWORD"] = PASSWORD
    told = refusal(shell, "", "copy", named, "sqlite:///copy.db", code=2)
    assert "which FROM names" in told
    assert not has_schema(server, "typo")
    assert not (shell.folder / "copy.db").exists()


def test_doctor_makes_no_queue(shell: Shell, server: PostgresServer) -> None:
    done = shell("doctor", LONGSHORE_QUEUE=f"{server.url}?schema=typo")
    assert "schema=typo does not exist yet; the first `submit` creates it." in done.stdout
    assert not has_schema(server, "typo")


@pytest.mark.parametrize("command", [("migrate",), COMMANDS[1]], ids=" ".join)
def test_a_command_that_is_to_make_a_queue_makes_it(
    shell: Shell, server: PostgresServer, command: tuple[str, ...]
) -> None:
    schema = f"made_by_{command[0]}"
    assert shell(*command, LONGSHORE_QUEUE=f"{server.url}?schema={schema}").returncode == 0
    assert has_schema(server, schema)


def test_a_mistyped_parameter(shell: Shell, server: PostgresServer) -> None:
    told = refusal(shell, f"{server.url}?shema=mine", "status", code=2)
    assert "unknown parameter 'shema'; did you mean schema?" in told


def test_a_user_who_may_not_make_the_tables(shell: Shell, server: PostgresServer) -> None:
    execute(server, f"create role newcomer login password '{PASSWORD}'")
    told = refusal(shell, server.url_of("postgres", user="newcomer") + "?schema=not_mine", *COMMANDS[1])
    assert "migrate" in told or "grant" in told.lower()


def test_a_schema_of_a_newer_longshore(shell: Shell, server: PostgresServer) -> None:
    url = f"{server.url}?schema=newer"
    assert shell("submit", "page", "--urls-file", "urls.txt", LONGSHORE_QUEUE=url).returncode == 0
    execute(server, "insert into newer.migration (version) values (1000)")
    told = refusal(shell, url, "status")
    assert "1000" in told
    assert "upgrade" in told.lower()


def test_submitting_twice_adds_nothing_and_two_workers_settle_each_once(shell: Shell, server: PostgresServer) -> None:
    url = f"{server.url}?schema=fleet"
    shell.urls(2000)
    submit = ("submit", "page", "--urls-file", "urls.txt", "--run", "r")
    assert shell(*submit, LONGSHORE_QUEUE=url).returncode == 0
    again = json.loads(shell(*submit, LONGSHORE_QUEUE=url).stdout)
    assert (again["submitted"], again["duplicates"]) == (0, 2000)
    work = ("work", "pages.py", "--run", "r", "--until-done")
    workers = [shell.start(*work, LONGSHORE_QUEUE=url) for _ in range(2)]
    for worker in workers:
        _, told = worker.communicate(timeout=90)
        assert worker.returncode == 0, told
    count = shell.json("status", "r", "--json", "--queue", url)
    assert (count["completed"], count["pending"], count["claimed"], count["failed"]) == (2000, 0, 0, 0)
