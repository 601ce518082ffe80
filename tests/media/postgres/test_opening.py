"""What stands between a URL and a queue: each obstacle has one message that names the cause and the fix."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from itertools import count

import asyncpg
import pytest
from tests.services.postgres import PASSWORD, PostgresServer, free_port

from longshore.clock import SystemClock
from longshore.errors import (
    ForeignQueueError,
    MissingQueueError,
    NewerSchemaError,
    QueueError,
    QueueUnavailableError,
    ReadOnlyQueueError,
    SettingsError,
)
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media import exists, open_queue
from longshore.media.postgres import PostgresQueue, connections, migrate, schema
from longshore.media.postgres.location import locate
from longshore.media.postgres.schema import VERSION, statements
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection, Submitted, each_job

_numbers = count()


async def run(url: str, statements: str) -> None:
    connection = await asyncpg.connect(locate(url).dsn)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


async def refusal(url: str, kind: type[QueueError]) -> str:
    """What opening says; it must be this kind of error, and show no password."""
    with pytest.raises(QueueError) as raised:
        await open_queue(url)
    assert type(raised.value) is kind
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


async def schemas(server: PostgresServer) -> set[str]:
    connection = await asyncpg.connect(server.url)
    try:
        return {row[0] for row in await connection.fetch("select nspname from pg_namespace")}
    finally:
        await connection.close()


async def test_who_asks_whether_there_is_a_queue_makes_none(url: str, server: PostgresServer) -> None:
    assert not await exists(url)
    assert locate(url).schema not in await schemas(server)
    await migrate(url)
    assert await exists(url)


async def test_a_schema_with_other_tables_has_no_queue_yet(url: str) -> None:
    name = locate(url).quoted_schema
    await run(url, f"create schema {name}; create table {name}.orders (id int)")
    assert not await exists(url)


async def test_a_schema_that_cannot_become_a_queue_says_so_to_who_only_asks(url: str) -> None:
    name = locate(url).quoted_schema
    await run(url, f"create schema {name}; create table {name}.job (id int)")
    with pytest.raises(ForeignQueueError, match="is used by other tables"):
        await exists(url)


@pytest.mark.parametrize("ask", [exists, open_queue, migrate])
async def test_a_server_that_lets_us_in_and_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], Awaitable[object]]
) -> None:
    monkeypatch.setattr(connections, "RECONNECT_TIMEOUT", 0.05)
    monkeypatch.setattr(schema, "RECONNECT_TIMEOUT", 0.05)
    # The system lets callers in; nobody is there to talk to them.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(QueueUnavailableError, match=r"did not answer in time\. Fix:"):
            await ask(f"postgresql://me:{PASSWORD}@127.0.0.1:{port}/x")


async def test_several_hosts_each_with_its_port(server: PostgresServer) -> None:
    url = server.url.replace("127.0.0.1", f"127.0.0.1:{free_port()},127.0.0.1")
    assert not await exists(f"{url}?schema=nowhere")


async def test_a_server_that_does_not_encrypt(server: PostgresServer) -> None:
    assert "sslmode=prefer" in await refusal(f"{server.url}?sslmode=require", QueueError)


async def test_eight_who_open_a_new_queue_at_once_make_it_once(url: str) -> None:
    queues = await asyncio.gather(*(open_queue(url) for _ in range(8)))
    await asyncio.gather(*(queue.submit([new_job("page", {"n": 1})]) for queue in queues))
    assert len(await queues[0].jobs(Selection())) == 1
    for queue in queues:
        await queue.close()


async def test_a_queue_of_the_first_version_is_brought_up_to_date_with_its_jobs(url: str) -> None:
    schema = locate(url).quoted_schema
    await run(
        url,
        f"create schema {schema}; set search_path = {schema};"
        "create table migration (version int primary key, applied_at timestamptz not null default now());"
        "insert into migration values (1);"
        + statements("0001_tables.sql")
        + "insert into family (run, kind) values ('r', 'page'); insert into lane (family, partition) values (1, '');"
        "insert into job (family, lane, priority, max_attempts, digest, key, host, payload)"
        "  values (1, 1, 0, 4, '\\x00', 'k', 'h', '{}');"
        "insert into ready values (1, 1, 0, 1, 1); insert into tally values ('{1}', '{1}', '{0}', '{0}', '{0}')",
    )
    assert await migrate(url) == (1, VERSION)
    queue = await open_queue(url)
    anna = WorkerId.new("anna")
    assert await queue.claim(Want(worker=anna, without_hosts=frozenset({"h"}))) == []
    (lease,) = await queue.claim(Want(worker=anna, limit=5))
    assert (lease.job.key, lease.job.parent, lease.job.depth) == ("k", None, 0)
    assert await queue.settle([Settlement(lease, Completed(1, (new_job("page", {"n": 1}),)))]) == [True]
    assert [job.depth for job in await queue.jobs(Selection())] == [0, 1]
    await queue.close()


async def test_jobs_that_wait_come_over_from_the_second_version_with_their_hosts(url: str) -> None:
    schema = locate(url).quoted_schema
    await run(
        url,
        f"create schema {schema}; set search_path = {schema};"
        "create table migration (version int primary key, applied_at timestamptz not null default now());"
        "insert into migration values (1), (2);"
        + statements("0001_tables.sql")
        + statements("0002_parents_and_roll.sql")
        + "insert into family (run, kind) values ('r', 'page'); insert into lane (family, partition) values (1, '');"
        "insert into job (family, lane, priority, max_attempts, digest, key, host, payload)"
        "  select 1, 1, 0, 4, sha256(n::text::bytea), n, 'host ' || n % 2, '{}' from generate_series(1, 40) n;"
        "insert into ready select family, lane, priority, 1, id from job where id <= 20;"
        "insert into delayed select id, family, lane, priority, 1, now() from job where id > 20;"
        "insert into tally values ('{1}', '{40}', '{0}', '{0}', '{0}');"
        "create role reader; grant select, insert, update, delete on ready to reader",
    )
    assert await migrate(url) == (2, VERSION)
    queue = await open_queue(url)
    want = Want(worker=WorkerId.new("anna"), limit=30, without_hosts=frozenset({"host 1"}))
    assert [lease.job.key for lease in await queue.claim(want)] == [str(n) for n in range(2, 41, 2)]
    assert await queue.claim(want) == []
    (count,) = await queue.stats()
    assert (count.pending, count.claimed) == (20, 20)
    connection = await asyncpg.connect(locate(url).dsn)
    assert await connection.fetchval("select has_table_privilege('reader', $1, 'delete')", f"{schema}.ready")
    await connection.execute(f"drop owned by reader; drop role reader; drop schema {schema} cascade")
    await connection.close()
    await queue.close()


async def test_runs_of_the_third_version_are_listed_whole(url: str) -> None:
    """Nobody took note where they begin: that is known of later ones only."""
    schema = locate(url).quoted_schema
    await run(
        url,
        f"create schema {schema}; set search_path = {schema};"
        "create table migration (version int primary key, applied_at timestamptz not null default now());"
        "insert into migration values (1), (2), (3);"
        + "".join(map(statements, ("0001_tables.sql", "0002_parents_and_roll.sql", "0003_hosts_and_notes.sql")))
        + "insert into family (run, kind) values ('r', 'page'); insert into lane (family, partition) values (1, '');"
        "insert into job (family, lane, priority, max_attempts, digest, key, host, payload)"
        "  select 1, 1, 0, 4, sha256(n::text::bytea), n, '', '{}' from generate_series(1, 2000) n;"
        "insert into ready select family, lane, priority, 1, id, host_number(host) from job where id > 1990;"
        "insert into done (job, state) select id, 'completed' from job where id <= 1990;"
        "insert into tally values ('{1}', '{10}', '{1990}', '{0}', '{0}')",
    )
    assert await migrate(url) == (3, VERSION)
    queue = await open_queue(url)
    await queue.submit([new_job("page", {"n": n}, run=name) for name in ("r", "s") for n in range(3)])
    pending = frozenset({State.PENDING})
    assert len([job async for job in each_job(queue, Selection(run="r", states=pending), page=4)]) == 13
    assert len([job async for job in each_job(queue, Selection(run="s", states=pending), page=2)]) == 3
    assert len(await queue.jobs(Selection(run="r", states=frozenset({State.COMPLETED})), limit=3000)) == 1990
    await queue.close()
    connection = await asyncpg.connect(locate(url).dsn)
    begins = await connection.fetch(f"select since from {schema}.family order by id")
    await connection.close()
    assert [row[0] for row in begins] == [0, 2000]


def view_of(migration: str) -> str:
    """Return the view `known` as it was after this migration."""
    _, begin, rest = statements(migration).partition("create or replace view known")
    return begin + rest


async def test_a_queue_of_an_earlier_version_gets_a_uuid_that_stays(url: str) -> None:
    queue = await open_queue(url)
    await queue.submit([new_job("page", {"n": 1})])
    await queue.close()
    schema = locate(url).quoted_schema
    await run(
        url,
        f"set search_path = {schema}; delete from migration where version > 5; drop table queue_uuid;"
        "drop view known cascade; alter table job drop column came_from; alter table done drop column handler_version;"
        f"{view_of('0002_parents_and_roll.sql')}",
    )
    uuids = set()
    for _ in range(2):
        queue = await open_queue(url)
        (found,) = await queue.jobs(Selection())
        uuids.add(found.queue)
        await queue.close()
    assert {len(uuid) for uuid in uuids} == {32}
    assert len(uuids) == 1


async def test_a_job_claimed_with_the_fourth_version_is_settled_with_the_next(url: str) -> None:
    queue = await open_queue(url)
    await queue.submit([new_job("page", {"n": 1})])
    (lease,) = await queue.claim(Want(worker=WorkerId.new("anna")))
    await queue.close()
    schema = locate(url).quoted_schema
    others = "bigint[], int[], bool[], json[], bool[], float8[], int[], float8[]"
    follow_ons = "text[], text[], text[], int[], int[], text[], json[], int[], text[], float8[], int[], json[], int[]"
    old = f"bigint[], text[], bigint[], int[], json[], float8[], {others}, {follow_ons}"
    await run(
        url,
        f"set search_path = {schema}; delete from migration where version > 4; drop function settle;"
        "drop table queue_uuid; drop view known cascade; alter table job drop column came_from;"
        "alter table done drop column handler_version;"
        f"{view_of('0002_parents_and_roll.sql')}"
        f"create function settle({old}, out completed int[], out others int[]) language sql "
        "as 'select null::int[], null::int[]'",
    )
    assert await migrate(url) == (4, VERSION)
    queue = await open_queue(url)
    assert await queue.settle([Settlement(lease, Completed(1))]) == [True]
    await queue.close()
    connection = await asyncpg.connect(locate(url).dsn)
    named = "select count(*) from pg_proc where proname = 'settle' and pronamespace = $1::regnamespace"
    assert await connection.fetchval(named, schema) == 1
    await connection.close()


async def test_migrating_twice_changes_nothing(url: str) -> None:
    assert await migrate(url) == (0, VERSION)
    queue = await open_queue(url)
    await queue.submit([new_job("page", {"n": 1})])
    assert await migrate(url) == (VERSION, VERSION)
    assert len(await queue.jobs(Selection())) == 1
    await queue.close()


async def test_queues_in_two_schemas_know_nothing_of_each_other(server: PostgresServer) -> None:
    one, other = [
        await open_queue(f"{server.url}?schema={name}&application_name=x") for name in ("with space", 'with"quote')
    ]
    await one.submit([new_job("page", {"n": 1})])
    assert (len(await one.jobs(Selection())), len(await other.jobs(Selection()))) == (1, 0)
    await one.close()
    await other.close()


async def test_a_newer_schema_is_left_alone(url: str) -> None:
    await migrate(url)
    await run(url, f"insert into {locate(url).quoted_schema}.migration (version) values ({VERSION + 1})")
    assert "upgrade Longshore" in await refusal(url, NewerSchemaError)


async def test_a_schema_with_somebody_elses_tables_of_our_names_is_left_alone(url: str) -> None:
    schema = locate(url).quoted_schema
    await run(url, f"create schema {schema}; create table {schema}.job (id int); create table {schema}.orders (id int)")
    message = await refusal(url, ForeignQueueError)
    assert "job" in message
    assert "?schema=" in message


async def test_the_tables_of_an_application_may_stand_beside_ours(url: str) -> None:
    schema = locate(url).quoted_schema
    await run(url, f"create schema {schema}; create table {schema}.orders (id int)")
    queue = await open_queue(url)
    assert await queue.submit([new_job("page", {"n": 1})]) == Submitted(1, 0)
    await queue.close()


async def test_a_queue_that_lost_its_tables_says_so(queue: Queue, url: str) -> None:
    await run(url, f"drop schema {locate(url).quoted_schema} cascade")
    with pytest.raises(ForeignQueueError, match="longshore migrate"):
        await queue.stats()


async def test_a_wrong_password(server: PostgresServer) -> None:
    assert "password" in await refusal(server.url_of("postgres", password="guess"), QueueError)


async def test_a_host_that_cannot_be_reached() -> None:
    message = await refusal(f"postgresql://me:{PASSWORD}@127.0.0.1:{free_port()}/x", QueueUnavailableError)
    assert "cannot be reached" in message


async def test_a_host_that_does_not_exist() -> None:
    assert "cannot be reached" in await refusal("postgresql://me@nowhere.invalid/x", QueueUnavailableError)


async def test_a_database_that_does_not_exist(server: PostgresServer) -> None:
    assert "createdb" in await refusal(server.url_of("nothing_here"), MissingQueueError)


async def test_a_user_who_may_not_create_the_schema(server: PostgresServer) -> None:
    await run(server.url, "create role guest login password 'guest'")
    message = await refusal(server.url_of("postgres", user="guest", password="guest") + "?schema=mine", QueueError)
    assert "longshore migrate" in message
    assert "grant" in message


async def test_a_user_with_the_documented_grants_can_do_everything_but_migrate(
    url: str, server: PostgresServer
) -> None:
    await migrate(url)
    location = locate(url)
    schema = location.quoted_schema
    await run(
        url,
        "create role crew login password 'crew';"
        f"grant usage on schema {schema} to crew;"
        f"grant select, insert, update, delete on all tables in schema {schema} to crew;"
        f"grant usage on all sequences in schema {schema} to crew;",
    )
    queue = await open_queue(server.url_of("postgres", user="crew", password="crew") + f"?schema={location.schema}")
    assert (await queue.submit([new_job("page", {"n": 1})])).new == 1
    assert await queue.cancel(Selection()) == 1
    assert await queue.prune(Selection()) == 1
    await queue.close()


async def test_a_database_that_takes_no_writes(url: str, server: PostgresServer) -> None:
    await migrate(url)
    name = f"reader_{next(_numbers)}"
    await run(url, f"create role {name} superuser login password 'r'; alter role {name} set transaction_read_only = on")
    await run(url, f"alter role {name} set default_transaction_read_only = on")
    read_only = server.url_of("postgres", user=name, password="r") + f"?schema={locate(url).schema}"
    queue = await PostgresQueue.open(read_only, SystemClock())
    with pytest.raises(ReadOnlyQueueError, match="primary"):
        await queue.submit([new_job("page", {"n": 1})])
    await queue.close()


@pytest.mark.parametrize("schema", ["", "pg_mine", "x" * 64])
async def test_a_schema_name_that_cannot_be(server: PostgresServer, schema: str) -> None:
    with pytest.raises(SettingsError, match="schema"):
        await open_queue(f"{server.url}?schema={schema}")
