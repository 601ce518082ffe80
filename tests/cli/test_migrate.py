"""`longshore migrate`: the schema is made, brought up to date, or left alone; and the roles that docs/postgresql.md
describes are enough.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest
from tests.services.postgres import PostgresServer

from longshore.media.postgres.schema import VERSION
from longshore.media.sqlite import schema

from .conftest import Shell

Says = Callable[..., str]
PAGE = Path(__file__).parents[2] / "docs" / "postgresql.md"


def test_the_schema_is_made_once(here: Path, says: Says) -> None:
    where = "The schema of sqlite:///.longshore/queue.db"
    assert says("migrate") == f"{where} was made: version {schema.VERSION}.\n"
    assert says("migrate") == f"{where} is up to date: version {schema.VERSION}, nothing to do.\n"


def test_an_old_schema_is_brought_up_to_date(here: Path, says: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as then, closing(sqlite3.connect("old.db", isolation_level=None)) as db:
        then.setattr(schema, "_MIGRATIONS", schema._MIGRATIONS[:1])
        then.setattr(schema, "VERSION", 1)
        schema.migrate(db, Path("old.db"))
    said = says("migrate", "--queue", "old.db")
    assert said == f"The schema of old.db was brought from version 1 to {schema.VERSION}.\n"


def test_a_newer_schema_is_left_alone(here: Path, refused: Callable[..., str], says: Says) -> None:
    says("migrate", "--queue", "new.db")
    with closing(sqlite3.connect("new.db")) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    assert "was made by a newer Longshore" in refused("migrate", "--queue", "new.db", code=1)


@pytest.mark.parametrize("queue", ["./queue", "dir://queue", "git@host:team/queue.git", "https://host/queue.git"])
def test_where_there_is_no_schema_there_is_nothing_to_do(here: Path, says: Says, queue: str) -> None:
    assert says("migrate", "--queue", queue) == f"{queue} has no schema: nothing to do.\n"
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("queue", ["sqlit:///x.db", "memory://", "queue"])
def test_what_is_no_queue_for_commands_is_refused(here: Path, refused: Callable[..., str], queue: str) -> None:
    refused("migrate", "--queue", queue)
    assert list(here.iterdir()) == []


def execute(url: str, statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statements)
        finally:
            await connection.close()

    asyncio.run(run())


def documented(marker: str) -> str:
    """The statements of the page that hold this text, with a password that fits into a URL."""
    blocks = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found = [block for block in blocks if marker in block]
    assert len(found) == 1
    return re.sub(r"password '[^']*'", "password 'secret'", found[0])


def test_the_documented_roles_are_enough_to_work_and_not_to_change_tables(server: PostgresServer, shell: Shell) -> None:
    execute(server.url, documented("create schema"))
    owner, worker = (server.url_of("postgres", user=name, password="secret") for name in ("jobs_owner", "jobs_worker"))

    urls = shell.urls(20)
    early = shell("submit", "page", "--urls-file", urls, "--queue", worker)
    assert early.returncode == 1
    assert "let the owner run 'longshore migrate' once" in early.stderr
    made = shell("migrate", "--queue", owner)
    assert "secret" not in made.stdout
    assert made.stdout.endswith(f" was made: version {VERSION}.\n")

    assert shell("submit", "page", "--urls-file", urls, "--run", "r", "--queue", worker).returncode == 0
    assert shell("work", "pages.py", "--until-done", "--queue", worker).returncode == 0
    assert shell.json("status", "r", "--json", "--queue", worker)["completed"] == 20
    assert "up to date" in shell("migrate", "--queue", worker).stdout
    assert shell("prune", "--run", "r", "--yes", "--queue", worker).stdout == "20 jobs are removed.\n"

    # What a later version adds is theirs to use as well, and still not theirs to make.
    execute(owner, "create table longshore.later (id bigserial primary key, n int)")
    execute(worker, "insert into longshore.later (n) values (1)")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        execute(worker, "create table longshore.mine (id int)")
    execute(owner, f"delete from longshore.migration where version = {VERSION}")
    late = shell("status", "--queue", worker)
    assert late.returncode == 1
    assert "let the owner run 'longshore migrate' once" in late.stderr


def test_tables_that_are_there_already_are_granted_as_documented(server: PostgresServer, shell: Shell) -> None:
    queue = f"{server.url}?schema=shop"
    assert " was made" in shell("migrate", "--queue", queue).stdout
    execute(server.url, "create role deckhand login password 'secret'; grant usage on schema shop to deckhand")
    grants = documented("on all tables").replace("longshore", "shop").replace("jobs_worker", "deckhand")
    execute(server.url, grants)
    deckhand = server.url_of("postgres", user="deckhand", password="secret") + "?schema=shop"
    assert shell("submit", "page", "--urls-file", shell.urls(3), "--queue", deckhand).returncode == 0
    assert shell("work", "pages.py", "--until-done", "--queue", deckhand).returncode == 0
