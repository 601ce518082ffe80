"""Exports: every format, whole or not there, and the same bytes from every medium."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
import zstandard
from tests.services.postgres import PostgresServer

from longshore.errors import NotFoundError, UsageError
from longshore.handlers.handler import Handler
from longshore.handlers.result import Partial, Result, outcome_of
from longshore.job import Job, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection
from longshore.runs.export import Exported, ExportFormat, ExportOrder, RecordRows, ResultRows, export, format_of
from longshore.runs.export import columns as columns_module
from longshore.runs.export import parquet as parquet_module
from longshore.runs.export import rows as rows_module
from longshore.runs.export import spool as spool_module
from longshore.runs.export.rows import ExportRow
from longshore.runs.records.run_records import InFolder
from longshore.runs.transfer.copy_jobs import MOVED_TO, MOVER
from longshore.scrape.records import Emission, RecordWriter


async def complete(queue: Queue, results: dict[str, Any], *, worker: str = "w", **payload: Any) -> None:
    """Jobs with these keys, completed with these results, in another order than they were submitted in."""
    await queue.submit([new_job("page", {"name": key, **payload}, run="r", key=key) for key in results])
    leases = await queue.claim(Want(worker=WorkerId.new(worker), limit=len(results)))
    random.Random(3).shuffle(leases)
    await queue.settle([Settlement(lease, Completed(results[lease.job.key])) for lease in leases])


async def exported(
    queue: Queue,
    out: Path,
    *,
    format_: ExportFormat | None = None,
    order: ExportOrder = ExportOrder.NAME,
    run: str = "r",
) -> Exported:
    chosen = format_ or format_of(str(out), None)
    return await export(ResultRows(queue, run), str(out), chosen, order, progress=lambda _: None)


async def table(queue: Queue, folder: Path) -> list[dict[str, Any]]:
    """The rows as a table has them, with their types."""
    await exported(queue, folder / "table.parquet")
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(folder / "table.parquet").to_pylist()
    return rows


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_large_results_are_read_few_at_a_time(tmp_path: Path) -> None:
    pages: list[int] = []

    class Asked(MemoryQueue):
        async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
            page = await super().jobs(selection, after=after, limit=limit)
            pages.append(len(page))
            return page

    queue = Asked()
    size = rows_module.PAGE_BYTES // 5
    await complete(queue, {f"{n:04}": "x" * (size if n < 100 else 1) for n in range(3000)})
    assert (await exported(queue, tmp_path / "x.jsonl")).rows == 3000
    first, *few = pages[:11]
    assert (first, set(few)) == (rows_module.FIRST_PAGE, {4})
    assert max(pages) == rows_module.MOST_JOBS


async def test_jsonl_has_a_line_for_each_completed_job_by_age_or_by_kind_and_key(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("page", {}, run="r", key="waits"), new_job("page", {}, run="other", key="o")])
    [lease] = await queue.claim(Want(worker=WorkerId.new("w"), run="other"))
    await queue.settle([Settlement(lease, Completed(0))])
    for kind, key in (("page", "b"), ("page", "a"), ("item", "c")):
        await queue.submit([new_job(kind, {"n": 1}, run="r", key=key, priority=-1)])
        [lease] = await queue.claim(Want(worker=WorkerId.new("w"), run="r", limit=1))
        await queue.settle([Settlement(lease, Completed({"ok": key}))])
    out = tmp_path / "x.jsonl"
    assert await exported(queue, out, order=ExportOrder.AGE) == Exported(3, 0)
    assert [line["key"] for line in lines(out)] == ["b", "a", "c"]
    assert await exported(queue, out) == Exported(3, 0)
    assert [line["key"] for line in lines(out)] == ["c", "a", "b"]
    assert lines(out)[0] == {"run": "r", "kind": "item", "key": "c", "payload": {"n": 1}, "result": {"ok": "c"}}


async def test_fields_become_columns_and_those_of_the_payload_give_way(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await complete(queue, {"a": {"title": "A", "Name": "found", "key": 7}, "b": {"title": "B", "price": 1.5}})
    assert await table(queue, tmp_path) == [
        {
            "run": "r",
            "kind": "page",
            "key": "a",
            "payload_name": "a",
            "title": "A",
            "Name": "found",
            "result_key": 7,
            "price": None,
        },
        {
            "run": "r",
            "kind": "page",
            "key": "b",
            "payload_name": "b",
            "title": "B",
            "Name": None,
            "result_key": None,
            "price": 1.5,
        },
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, None, False], [True, None, False]),
        ([1, None, 2**63 - 1], [1, None, 2**63 - 1]),
        ([1, 2.5], [1.0, 2.5]),
        ([1, "two", True, None], ["1", "two", "true", None]),
        ([True, 1], ["true", "1"]),
        ([2**60, 0.5], [str(2**60), "0.5"]),
        ([2**63], [str(2**63)]),
        ([{"a": [1]}, [1, "x"], "text"], ['{"a":[1]}', '[1,"x"]', "text"]),
        ([None], [None]),
        (["", "0", "é\0"], ["", "0", "é\0"]),
    ],
)
async def test_a_column_has_the_type_that_all_its_values_have(
    tmp_path: Path, values: list[Any], expected: list[Any]
) -> None:
    queue = MemoryQueue()
    await complete(queue, {str(n): {"x": value} for n, value in enumerate(values)})
    assert [row["x"] for row in await table(queue, tmp_path)] == expected
    await exported(queue, tmp_path / "x.db")
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        assert [x for (x,) in database.execute("SELECT x FROM results ORDER BY key")] == expected


async def test_a_result_that_is_no_object_is_one_column(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await complete(queue, {"a": 1, "b": None, "c": {"result": "inner"}})
    assert [row["result"] for row in await table(queue, tmp_path)] == ["1", None, "inner"]


async def test_results_and_errors_of_the_parts_stand_side_by_side(tmp_path: Path) -> None:
    """E15."""
    queue = MemoryQueue()
    await queue.submit([new_job("page", {"n": 1}, run="r", key="k")])
    [lease] = await queue.claim(Want(worker=WorkerId.new("w")))
    handler = Handler("page", lambda job: None)
    partial = Partial(results=[{"city": "Ulm"}], errors=[ValueError("no such city")])
    await queue.settle([Settlement(lease, outcome_of(handler, lease.job, Result(partial, message="half of it")))])
    [row] = await table(queue, tmp_path)
    assert json.loads(row["results"]) == [{"city": "Ulm"}]
    assert json.loads(row["errors"]) == [{"error": "no such city", "error_type": "unknown", "retryable": True}]
    assert row["message"] == "half of it"
    assert list(row)[-3:] == ["results", "errors", "message"]


async def test_a_message_and_a_field_of_that_name_are_two_columns(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await complete(queue, {"a": {"success": True, "data": {"message": "of the page"}, "message": "of the handler"}})
    [row] = await table(queue, tmp_path)
    assert (row["message"], row["envelope_message"]) == ("of the page", "of the handler")


async def test_csv_is_read_back_as_it_was_and_an_empty_text_is_not_nothing(tmp_path: Path) -> None:
    queue = MemoryQueue()
    odd = ['a "quoted", one', "two\nlines", " blank ", "", None, "ünï"]
    await complete(queue, {str(n): {"x": text} for n, text in enumerate(odd)})
    await exported(queue, tmp_path / "x.csv")
    text = (tmp_path / "x.csv").read_bytes().decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["x"] or None for row in rows] == [text or None for text in odd]
    assert text.startswith("run,kind,key,name,x\n")
    assert 'r,page,3,3,""\n' in text
    assert "r,page,4,4,\n" in text


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ('=HYPERLINK("http://evil")', """\"'=HYPERLINK(""http://evil"")\""""),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-1+cmd()", "'-1+cmd()"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("＝1+1", "'＝1+1"),
        ("-12.50", "-12.50"),
        ("+49 (30) 123-4", "+49 (30) 123-4"),
        ("a=b", "a=b"),
        (-3, "-3"),
        ("--", "--"),
    ],
)
async def test_no_text_of_a_csv_is_a_formula(tmp_path: Path, value: Any, cell: str) -> None:
    queue = MemoryQueue()
    await complete(queue, {"k": {"x": value}})
    await exported(queue, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().split("\n", 1)[1] == f"r,page,k,k,{cell}\n"


async def test_no_header_of_a_csv_is_a_formula(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await complete(queue, {"k": {"=evil()": 1}})
    await exported(queue, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().startswith("run,kind,key,name,'=evil()\n")


async def test_names_that_sqlite_takes_for_the_same_are_told_apart(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await complete(queue, {"k": {'a"b': 1, 'A"B': 2, "": 3, "result_": 4, "payload_name": 5, "name": 6, "x\0": 7}})
    await exported(queue, tmp_path / "x.sqlite")
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as database:
        database.row_factory = sqlite3.Row
        [row] = database.execute("SELECT * FROM results")
    assert dict(row) == {
        "run": "r",
        "kind": "page",
        "key": "k",
        "payload_name_2": "k",
        'a"b': 1,
        'result_A"B': 2,
        "result_": 3,
        "result_result_": 4,
        "payload_name": 5,
        "name": 6,
        "x": 7,
    }


async def test_fields_without_end_are_refused_and_jsonl_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "MOST_COLUMNS", 10)
    queue = MemoryQueue()
    await complete(queue, {str(n): {f"field{n}": 1} for n in range(20)})
    with pytest.raises(UsageError, match=r"more than 10 different fields.*--format jsonl"):
        await exported(queue, tmp_path / "x.csv")
    assert files_in(tmp_path) == []
    assert (await exported(queue, tmp_path / "x.jsonl")).rows == 20


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.sqlite", "x.jsonl"])
async def test_a_run_without_results_is_an_empty_table(tmp_path: Path, name: str) -> None:
    assert (await exported(MemoryQueue(), tmp_path / name)).rows == 0
    if name == "x.csv":
        assert (tmp_path / name).read_text() == "run,kind,key\n"
    elif name == "x.parquet":
        assert pyarrow.parquet.read_table(tmp_path / name).column_names == ["run", "kind", "key"]


async def test_a_name_says_the_format_and_how_it_is_packed(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await complete(queue, {"a": {"x": 1}, "b": {"x": 2}})
    for name in ("x.jsonl", "x.jsonl.zst", "x.jsonl.gz", "x.csv", "x.csv.gz"):
        await exported(queue, tmp_path / name)
    plain = (tmp_path / "x.jsonl").read_bytes()
    with zstandard.open(tmp_path / "x.jsonl.zst") as file:
        assert file.read() == plain
    assert gzip.decompress((tmp_path / "x.jsonl.gz").read_bytes()) == plain
    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()) == (tmp_path / "x.csv").read_bytes()
    assert format_of("x.csv", "jsonl") is ExportFormat.JSONL
    assert format_of("-", None) is ExportFormat.JSONL
    for out, named, why in (
        ("x.txt", None, "does not imply a format"),
        ("x", "xml", "There is no format 'xml'"),
        ("-", "parquet", "cannot be written to standard output"),
        ("x.parquet.zst", None, "only jsonl and csv"),
    ):
        with pytest.raises(UsageError, match=why):
            format_of(out, named)


@pytest.mark.parametrize("format_", list(ExportFormat))
async def test_what_cannot_be_finished_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, format_: ExportFormat
) -> None:
    class Breaks(ResultRows):
        async def each(self) -> AsyncIterator[ExportRow]:
            async for row in super().each():
                yield row
            raise OSError(28, "No space left on device")

    queue = MemoryQueue()
    await complete(queue, {"a": 1, "b": 2})
    out = tmp_path / f"x.{format_}"
    out.write_text("old\n")
    for order in ExportOrder:
        with pytest.raises(UsageError, match="No space left on device"):
            await export(Breaks(queue, "r"), str(out), format_, order, progress=lambda _: None)
    assert out.read_text() == "old\n"
    assert files_in(tmp_path) == [out]


async def test_a_database_that_is_no_export_is_never_written_over(tmp_path: Path) -> None:
    queue = await open_queue(f"sqlite:///{tmp_path}/queue.db")
    await complete(queue, {"a": 1})
    for format_ in (ExportFormat.SQLITE, ExportFormat.CSV):
        with pytest.raises(UsageError, match="may be the queue itself"):
            await exported(queue, tmp_path / "queue.db", format_=format_)
    for _ in range(2):
        await exported(queue, tmp_path / "mine.db")
    await queue.close()


async def test_what_a_move_left_behind_is_no_result(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await complete(queue, {"gone": {MOVED_TO: "there"}}, worker=f"{MOVER}1")
    assert (await exported(queue, tmp_path / "x.jsonl")).rows == 0


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.parquet"])
async def test_what_does_not_fit_into_memory_is_sorted_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    queue = MemoryQueue()
    keys = [f"{number:04}" for number in range(500)]
    random.Random(1).shuffle(keys)
    # Every job brings a field of its own in every tenth, so that the order of the columns is at stake too.
    await complete(queue, {key: {"text": "x" * 30, f"f{key[:2]}": 1} for key in keys})
    await exported(queue, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    monkeypatch.setattr(spool_module, "MOST_BYTES", 1000)
    monkeypatch.setattr(spool_module, "FRAME", 100)
    await exported(queue, tmp_path / name)
    assert (tmp_path / name).read_bytes() == whole
    if name == "x.jsonl":
        assert [line["key"] for line in lines(tmp_path / name)] == sorted(keys)


async def test_parquet_is_written_group_by_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_module, "GROUP_ROWS", 4)
    queue = MemoryQueue()
    await complete(queue, {str(n): {"n": n} for n in range(10)})
    await exported(queue, tmp_path / "x.parquet")
    assert pyarrow.parquet.ParquetFile(tmp_path / "x.parquet").num_row_groups == 3
    assert [row["n"] for row in await table(queue, tmp_path)] == list(range(10))


def emit(queue: Queue, folder: Path, leases: list[Any]) -> list[Settlement]:
    writer = RecordWriter(folder, "w")
    for lease in leases:
        emission = Emission()
        emission.emit({"title": f"T{lease.job.key}", "n": 1}, "item")
        emission.emit({"stars": 5, "text": None}, "review")
        emission.emit({"title": "second"}, "item")
        emitted = emission.emitted()
        assert emitted is not None
        writer.put(lease.job, emitted)
    writer.close()
    return [Settlement(lease, Completed(None)) for lease in leases]


async def with_records(folder: Path) -> MemoryQueue:
    queue = MemoryQueue()
    await queue.submit([new_job("page", {"k": key}, run="r", key=key) for key in ("b", "a")])
    leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=2))
    await queue.settle(emit(queue, folder, leases))
    return queue


async def test_records_are_lines_that_name_their_job(tmp_path: Path) -> None:
    queue = await with_records(tmp_path / "records")
    out = tmp_path / "x.jsonl"
    rows = RecordRows("r", InFolder(queue, "r", tmp_path / "records"), "item")
    assert (await export(rows, str(out), ExportFormat.JSONL, ExportOrder.NAME, progress=lambda _: None)).rows == 4
    assert lines(out)[:2] == [
        {"run": "r", "job_kind": "page", "key": "a", "n": 0, "kind": "item", "data": {"title": "Ta", "n": 1}},
        {"run": "r", "job_kind": "page", "key": "a", "n": 2, "kind": "item", "data": {"title": "second"}},
    ]


async def test_each_kind_of_record_is_a_table_of_the_database(tmp_path: Path) -> None:
    queue = await with_records(tmp_path / "records")
    rows = RecordRows("r", InFolder(queue, "r", tmp_path / "records"))
    await export(rows, str(tmp_path / "x.db"), ExportFormat.SQLITE, ExportOrder.NAME, progress=lambda _: None)
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        items = database.execute("SELECT key, n, title, data_n FROM item").fetchall()
        assert items == [("a", 0, "Ta", 1), ("a", 2, "second", None), ("b", 0, "Tb", 1), ("b", 2, "second", None)]
        assert database.execute("SELECT key, n, stars, text FROM review").fetchall() == [
            ("a", 1, 5, None),
            ("b", 1, 5, None),
        ]
    await export(rows, str(tmp_path / "x.csv"), ExportFormat.CSV, ExportOrder.NAME, progress=lambda _: None)
    assert (tmp_path / "x.csv").read_text().startswith("run,job_kind,key,n,kind,title,data_n,stars,text\n")


async def test_records_that_are_not_there_are_an_error_that_says_which_are(tmp_path: Path) -> None:
    queue = await with_records(tmp_path / "records")
    for folder, kind, why in (
        ("records", "itm", "no records of kind 'itm'. It has: item, review"),
        ("elsewhere", None, "There are no records of run 'r'.*--data-folder"),
    ):
        rows = RecordRows("r", InFolder(queue, "r", tmp_path / folder), kind)
        for format_ in (ExportFormat.JSONL, ExportFormat.SQLITE):
            with pytest.raises(NotFoundError, match=why):
                await export(rows, str(tmp_path / "x"), format_, ExportOrder.AGE, progress=lambda _: None)
    assert files_in(tmp_path) == [tmp_path / "records"]


AWKWARD: list[Any] = [
    {"z": 1, "a": {"y": [1.0, 2, 1e300, -0.0], "x": "ä\0\u2028"}, "huge": 2**53 + 1},
    {"a": None, "deep": [[[]]], "0": True, "text": "='1"},
    ["list", 1.5],
    "plain",
    None,
    {"success": True, "data": {"z": 2.5}, "message": "hi"},
    {"results": [1], "errors": [{"error": "no"}]},
]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "queue.git")], check=True)
    return tmp_path / "queue.git"


async def test_the_same_work_is_the_same_bytes_from_every_medium(
    tmp_path: Path, server: PostgresServer, repository: Path
) -> None:
    urls = {
        "sqlite": f"sqlite:///{tmp_path}/queue.db",
        "directory": f"dir://{tmp_path}/queue",
        "git": f"git+file://{repository}",
        "postgres": f"{server.url}?schema=export",
    }
    queues: dict[str, Queue] = {"memory": MemoryQueue(), **{name: await open_queue(url) for name, url in urls.items()}}
    chance = random.Random(11)
    names = ["x.jsonl", "x.csv", "x.parquet", "x.jsonl.gz"]
    found: dict[str, list[bytes]] = {}
    for medium, queue in queues.items():
        # Each in an order of its own, and the queue has other runs too.
        numbers = list(range(60))
        chance.shuffle(numbers)
        jobs = [new_job(f"kind{n % 2}", {"n": n, "b": {"q": 1.0, "a": 2}}, run="r", key=f"k{n}") for n in numbers]
        await queue.submit([*jobs, new_job("kind0", {"n": -1}, run="s")])
        while leases := await queue.claim(Want(worker=WorkerId.new("w"), limit=25, run="r")):
            chance.shuffle(leases)
            outcomes = [Completed(AWKWARD[lease.job.payload["n"] % len(AWKWARD)]) for lease in leases]
            pairs = zip(leases, outcomes, strict=True)
            assert all(await queue.settle([Settlement(lease, outcome) for lease, outcome in pairs]))
        folder = tmp_path / f"out-{medium}"
        folder.mkdir()
        for name in names:
            assert (await exported(queue, folder / name)).rows == 60
        found[medium] = [(folder / name).read_bytes() for name in names]
        await queue.close()
    for medium, files in found.items():
        for name, ours, theirs in zip(names, files, found["memory"], strict=True):
            assert ours == theirs, f"{name} of {medium}"
