"""Tables, folders, queries and functions as sources of jobs: streamed, the same every time, and faults named."""

from __future__ import annotations

import os
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from longshore.errors import InputFileError, UsageError
from longshore.job import new_job
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection
from longshore.runs.sources import (
    CsvFile,
    Generated,
    PythonSource,
    Scan,
    Shape,
    Source,
    SqlQuery,
    Template,
    product,
    source_in,
)
from longshore.runs.submit.input_files import InputEntry
from longshore.runs.submit.submission import Submission, SubmissionPlan, check_file, submit_file
from longshore.wrappers.differing_duplicates import DifferingDuplicates, DifferingKind


def csv_of(tmp_path: Path, text: str | bytes, shape: Shape | None = None) -> CsvFile:
    path = tmp_path / "cities.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return CsvFile(str(path), shape or Shape())


def payloads(source: Source) -> list[dict[str, Any]]:
    return [entry.payload for entry in source.entries()]


class TestTemplates:
    def test_values_are_encoded_where_they_stand_inside_a_url(self) -> None:
        template = Template("https://a.org/{city}?q={name}")
        assert template.filled_url({"city": "New York", "name": "A&B/ü"}) == "https://a.org/New%20York?q=A%26B%2F%C3%BC"

    def test_a_value_the_template_begins_with_brings_its_scheme_along(self) -> None:
        assert (
            Template("{site}/x?q={q}").filled_url({"site": "https://a.org/b", "q": "1/2"})
            == "https://a.org/b/x?q=1%2F2"
        )

    def test_a_missing_column_is_named_with_the_one_that_may_be_meant(self) -> None:
        with pytest.raises(ValueError, match=r"no column 'citty'\. Did you mean \{city\}\?"):
            Template("{citty}").filled({"city": "x", "state": "y"})

    @pytest.mark.parametrize("text", ["{", "{}", "{a!r}", "{a:>3}", "a}"])
    def test_what_is_no_template_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="is not a template"):
            Template(text)

    def test_nothing_but_columns_can_be_reached_from_a_template(self) -> None:
        with pytest.raises(ValueError, match=r"no column 'city\.__class__'"):
            Template("{city.__class__}").filled({"city": "x"})


class TestCsv:
    def test_a_row_is_a_job_with_its_columns_as_payload_and_the_url_of_the_template(self, tmp_path: Path) -> None:
        shape = Shape(url="https://a.org/{city}", key="{state}/{city}", partition="{state}")
        source = csv_of(tmp_path, "city,state\nAustin,TX\n\nFresno,CA\n", shape)
        assert list(source.entries()) == [
            InputEntry(
                payload={"city": "Austin", "state": "TX", "url": "https://a.org/Austin"},
                key="TX/Austin",
                partition="TX",
            ),
            InputEntry(
                payload={"city": "Fresno", "state": "CA", "url": "https://a.org/Fresno"},
                key="CA/Fresno",
                partition="CA",
            ),
        ]

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    def test_the_separator_is_found_by_itself(self, tmp_path: Path, separator: str) -> None:
        assert payloads(csv_of(tmp_path, f"a{separator}b\n1{separator}2\n")) == [{"a": "1", "b": "2"}]

    def test_quotes_line_breaks_within_them_a_byte_order_mark_and_windows_line_ends_do_no_harm(
        self, tmp_path: Path
    ) -> None:
        source = csv_of(tmp_path, b'\xef\xbb\xbfa,b\r\n"x\r\ny","say ""hi"", you"\r\n')
        assert payloads(source) == [{"a": "x\r\ny", "b": 'say "hi", you'}]

    def test_the_name_of_a_column_may_have_a_line_break_within_quotes(self, tmp_path: Path) -> None:
        source = csv_of(tmp_path, '"city\nor town",b\nx,y\nz\n')
        entries = source.entries()
        assert next(entries).payload == {"city\nor town": "x", "b": "y"}
        with pytest.raises(InputFileError, match="line 4: there are 1 values"):
            next(entries)

    def test_a_value_may_be_a_whole_page(self, tmp_path: Path) -> None:
        page = "x" * 1_000_000
        assert payloads(csv_of(tmp_path, f"a,b\n1,{page}\n")) == [{"a": "1", "b": page}]

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("a,b\n1,2\n1,2,3\n", r"line 3: there are 3 values but 2 columns"),
            ("a,a\n1,2\n", r"line 1: two columns are called 'a'"),
            ("a,,c\n1,2,3\n", r"line 1: column 2 has no name"),
            ("url\nnonsense\n", r"line 2: 'nonsense' is not a URL"),
            ('a,b\n1,"2\n', r"line 2: unexpected end of data"),
            ("", r"There are no jobs in"),
            ("a,b\n", r"There are no jobs in"),
            (b"a,b\n\xff,2\n", r"is not UTF-8 text"),
            (b"a,b\n" + 5000 * b"11,2\n" + b"\xff,2\n", r"is not UTF-8 text: .* Save it as UTF-8"),
        ],
    )
    def test_what_is_wrong_is_named_by_its_line_before_anything_is_submitted(
        self, tmp_path: Path, text: str | bytes, fault: str
    ) -> None:
        with pytest.raises(InputFileError, match=rf"{fault}.*Nothing was submitted"):
            check_file(csv_of(tmp_path, text))

    def test_an_empty_value_that_the_url_needs_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputFileError, match=r"line 3: 'city' is empty"):
            check_file(csv_of(tmp_path, "n,city\n1,x\n2, \n", Shape(url="https://a.org/{city}")))

    async def test_submitting_it_again_is_harmless(self, tmp_path: Path) -> None:
        queue, plan = MemoryQueue(), SubmissionPlan(run="r", kind="page")
        source = csv_of(tmp_path, "n,city\n1,a\n2,b\n3,a\n", Shape(url="https://a.org/{city}"))
        # The third has the URL of the first: it is the same page, although its number is another one.
        differing = DifferingDuplicates(kinds={"page": DifferingKind(jobs=1, fields={"n": 1})})
        assert await submit_file(queue, source, plan) == Submission("r", 2, 1, differing)
        assert await submit_file(queue, source, plan) == Submission("r", 0, 3, differing)

    def test_memory_stays_bounded_however_long_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "long.csv"
        with path.open("w") as file:
            file.write("n,city\n")
            file.writelines(f"{number},city number {number}\n" for number in range(100_000))
        tracemalloc.start()
        try:
            assert sum(1 for _ in CsvFile(str(path)).entries()) == 100_000
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()


@pytest.fixture
def filings(tmp_path: Path) -> Path:
    folder = tmp_path / "filings"
    for name in (
        "2023/a.xml",
        "2024/b.xml",
        "2024/q1/c.xml",
        "2024/q1/c.txt",
        "10-K_20240131.html",
        "2024/.hidden.xml",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (folder / ".git").mkdir()
    (folder / ".git" / "2024.xml").touch()
    return folder


def names(scan: Scan) -> list[str]:
    return [payload["name"] for payload in payloads(scan)]


class TestScans:
    def test_every_file_is_a_job_in_the_order_of_the_names_but_for_hidden_ones(self, filings: Path) -> None:
        assert names(Scan(str(filings))) == [
            "10-K_20240131.html",
            "2023/a.xml",
            "2024/b.xml",
            "2024/q1/c.txt",
            "2024/q1/c.xml",
        ]

    def test_a_job_says_how_to_open_the_file_and_of_which_year_it_is(self, filings: Path) -> None:
        assert payloads(Scan(str(filings), glob="*.html")) == [
            {"path": str(filings / "10-K_20240131.html"), "name": "10-K_20240131.html", "year": 2024}
        ]

    @pytest.mark.parametrize(
        ("glob", "found"),
        [
            ("*.xml", ["2023/a.xml", "2024/b.xml", "2024/q1/c.xml"]),
            ("2024/*.xml", ["2024/b.xml"]),
            ("2024/**/*.xml", ["2024/b.xml", "2024/q1/c.xml"]),
            ("**/[ab].xml", ["2023/a.xml", "2024/b.xml"]),
            ("**/[!a].xml", ["2024/b.xml", "2024/q1/c.xml"]),
            ("202?/a.*", ["2023/a.xml"]),
            ("none", []),
        ],
    )
    def test_a_pattern_picks_files(self, filings: Path, glob: str, found: list[str]) -> None:
        assert names(Scan(str(filings), glob=glob)) == found

    def test_by_year_and_limit(self, filings: Path) -> None:
        assert names(Scan(str(filings), year=2023)) == ["2023/a.xml"]
        assert names(Scan(str(filings), year=2024, limit=2)) == ["10-K_20240131.html", "2024/b.xml"]

    @pytest.mark.parametrize("name", ["doc12024.xml", "20249.xml", "v2.xml", "3024.xml"])
    def test_a_number_that_is_no_year_is_none(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).touch()
        assert "year" not in payloads(Scan(str(tmp_path), glob=name))[0]

    async def test_the_same_folder_gives_the_same_jobs(self, filings: Path) -> None:
        queue, plan = MemoryQueue(), SubmissionPlan(run="r", kind="filing")
        assert await submit_file(queue, Scan(str(filings)), plan) == Submission("r", 5, 0)
        (filings / "2025.xml").touch()
        assert await submit_file(queue, Scan(str(filings)), plan) == Submission("r", 1, 5)

    async def test_a_folder_that_is_not_there_or_has_no_such_file_is_refused(self, filings: Path) -> None:
        plan = SubmissionPlan(run="r", kind="filing")
        with pytest.raises(InputFileError, match=r"none cannot be read: No such file or directory"):
            await submit_file(MemoryQueue(), Scan(str(filings / "none")), plan)
        with pytest.raises(InputFileError, match=r"no files of the year 1999 that match '\*\.xml' in "):
            await submit_file(MemoryQueue(), Scan(str(filings), glob="*.xml", year=1999), plan)

    @pytest.mark.skipif(os.name == "nt", reason="links")
    def test_a_link_to_a_folder_above_ends_nothing_and_is_not_followed(self, filings: Path) -> None:
        (filings / "2024" / "up").symlink_to(filings)
        assert len(names(Scan(str(filings)))) == 5

    @pytest.mark.parametrize(("year", "limit"), [(24, None), (None, 0)])
    def test_a_year_or_limit_that_is_none_is_refused(self, year: int | None, limit: int | None) -> None:
        with pytest.raises(UsageError, match="of a scan cannot be"):
            Scan(".", year=year, limit=limit)

    @pytest.mark.filterwarnings("error")
    def test_brackets_hold_characters_and_nothing_else(self, tmp_path: Path) -> None:
        for name in ("[", "^", "&", "a", "b", "-"):
            (tmp_path / name).touch()
        assert names(Scan(str(tmp_path), glob="[[^&&]")) == ["&", "[", "^"]
        assert names(Scan(str(tmp_path), glob="[!a-b^]")) == ["&", "-", "["]

    def test_a_pattern_that_says_nothing_is_refused(self) -> None:
        with pytest.raises(UsageError, match=r"cannot be '\[z-a\]': bad character range z-a"):
            Scan("filings", glob="[z-a]")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table site (id integer, city text, state text, logo blob)")
        connection.executemany(
            "insert into site values (?, ?, ?, x'00')", [(1, "Austin", "TX"), (2, "Fresno", "CA"), (3, "Dallas", "TX")]
        )
    return path


class TestSqlite:
    @pytest.mark.parametrize("prefix", ["", "sqlite:///"])
    def test_a_row_is_a_job_and_parameters_are_bound(self, database: Path, prefix: str) -> None:
        query = "select id, city from site where state = :state and id < :most order by id"
        shape = Shape(url="https://a.org/{city}", partition="TX")
        source = SqlQuery(f"{prefix}{database}", query, {"state": "TX", "most": "3"}, shape)
        assert list(source.entries()) == [
            InputEntry(payload={"id": 1, "city": "Austin", "url": "https://a.org/Austin"}, partition="TX")
        ]

    def test_a_value_cannot_become_part_of_the_query(self, database: Path) -> None:
        source = SqlQuery(str(database), "select id from site where state = :s", {"s": "TX' or '1'='1"})
        assert list(source.entries()) == []

    @pytest.mark.parametrize(
        ("query", "fault"),
        [
            ("select town from site", "no such column: town"),
            ("select id from site where id = :id", r"The query fails in .*:id\. It must be one SELECT"),
            ("delete from site", "readonly database"),
            ("select 1; select 2", "one statement"),
            ("select id, id from site", "Two columns of the query"),
            ("select logo from site", r"row 1 of the query: 'logo' holds a bytes"),
            ("", "returns no rows"),
        ],
    )
    def test_a_query_that_cannot_be_used_is_refused_and_changes_nothing(
        self, database: Path, query: str, fault: str
    ) -> None:
        with pytest.raises(InputFileError, match=fault):
            list(SqlQuery(str(database), query).entries())
        with closing(sqlite3.connect(database)) as connection:
            assert connection.execute("select count(*) from site").fetchone() == (3,)

    async def test_a_database_that_is_not_there_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(InputFileError, match="There is no database"):
            list(SqlQuery(str(tmp_path / "none.db"), "select 1").entries())
        assert not (tmp_path / "none.db").exists()

    async def test_a_query_that_finds_nothing_is_refused(self, database: Path) -> None:
        source = SqlQuery(str(database), "select id from site where id > 9")
        with pytest.raises(InputFileError, match="the query finds no row"):
            await submit_file(MemoryQueue(), source, SubmissionPlan(run="r", kind="page"))


class TestFunctions:
    async def test_urls_payloads_and_jobs_may_be_mixed_and_a_job_keeps_what_it_says(self) -> None:
        def targets() -> Iterator[Any]:
            yield "https://a.org/"
            yield {"n": 1}
            yield new_job("detail", {"n": 2}, key="two", priority=5, partition="TX", max_attempts=1)

        queue = MemoryQueue()
        await submit_file(queue, Generated(targets), SubmissionPlan(run="r", kind="page", max_attempts=2))
        one, two, three = await queue.jobs(Selection(run="r"))
        assert (one.kind, one.payload, one.host, one.max_attempts) == ("page", {"url": "https://a.org/"}, "a.org", 2)
        assert (two.kind, two.payload) == ("page", {"n": 1})
        assert (three.kind, three.key, three.priority, three.partition, three.max_attempts) == (
            "detail",
            "two",
            5,
            "TX",
            1,
        )

    @pytest.mark.parametrize(
        ("item", "fault"), [(7, "item 1: a int is not a job"), ("x y", "item 1: 'x y' is not a URL")]
    )
    def test_what_is_no_job_is_named_by_its_place(self, item: Any, fault: str) -> None:
        with pytest.raises(InputFileError, match=fault):
            list(Generated([item]).entries())

    def test_a_function_that_fails_says_how_far_it_came(self) -> None:
        def targets() -> Iterator[str]:
            yield "https://a.org/"
            raise KeyError("city")

        with pytest.raises(InputFileError, match=r"targets failed after 1 jobs: KeyError: 'city'"):
            list(Generated(targets).entries())

    def test_one_may_be_named_by_file_and_function(self, tmp_path: Path) -> None:
        file = tmp_path / "targets_of_a_test.py"
        file.write_text("def cities():\n    yield {'city': 'Austin'}\n")
        assert payloads(PythonSource(f"{file}:cities")) == [{"city": "Austin"}]
        with pytest.raises(InputFileError, match="There is no 'towns' in"):
            list(PythonSource(f"{file}:towns").entries())
        with pytest.raises(InputFileError, match=r"none\.py"):
            list(PythonSource(f"{tmp_path}/none.py:cities").entries())


class TestProducts:
    @pytest.mark.parametrize(
        ("dimensions", "fault"),
        [
            ({"a": [["x"]], "b": {"x": [1]}}, "'b' of a product failed: TypeError: unhashable"),
            ({"a": lambda _: [1, 1 // 0]}, "'a' of a product failed: ZeroDivisionError"),
            ({"a": lambda _: 5}, "'a' of a product failed: TypeError"),
        ],
    )
    def test_values_that_cannot_be_had_are_a_fault_of_the_source(self, dimensions: dict[str, Any], fault: str) -> None:
        with pytest.raises(InputFileError, match=fault):
            check_file(product(**dimensions))

    def test_every_combination_is_a_job(self) -> None:
        source = product(state=["TX", "CA"], category=["cafe", "bar"], url="https://a.org/{state}/{category}")
        assert [payload["url"] for payload in payloads(source)] == [
            "https://a.org/TX/cafe",
            "https://a.org/TX/bar",
            "https://a.org/CA/cafe",
            "https://a.org/CA/bar",
        ]

    def test_cities_may_depend_on_their_state(self) -> None:
        cities = {"TX": ["Austin", "Dallas"], "CA": ["Fresno"]}
        by_mapping = product(state=["TX", "CA"], city=cities, category=["cafe"], partition="{state}")
        by_function = product(
            state=["TX", "CA"], city=lambda chosen: cities[chosen["state"]], category=["cafe"], partition="{state}"
        )
        assert list(by_mapping.entries()) == list(by_function.entries())
        assert [(entry.payload["city"], entry.partition) for entry in by_mapping.entries()] == [
            ("Austin", "TX"),
            ("Dallas", "TX"),
            ("Fresno", "CA"),
        ]

    async def test_making_the_targets_again_adds_only_what_is_new(self) -> None:
        """B14: target generation is idempotent."""
        queue, plan = MemoryQueue(), SubmissionPlan(run="r", kind="search")
        few = product(state=["TX"], city=["Austin"], category=["cafe", "bar"])
        more = product(state=["TX", "CA"], city=["Austin"], category=["cafe", "bar"])
        assert await submit_file(queue, few, plan) == Submission("r", 2, 0)
        assert await submit_file(queue, more, plan) == Submission("r", 2, 2)

    def test_a_million_combinations_are_never_held_at_once(self) -> None:
        source = product(a=range(100), b=range(100), c=range(10))
        tracemalloc.start()
        try:
            assert sum(1 for _ in source.entries()) == 100_000
            # All at once would be some 30 MB. What other threads of the test process allocate meanwhile counts, too.
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()

    def test_what_cannot_be_a_dimension_is_refused(self) -> None:
        with pytest.raises(UsageError, match="'state' of a product must be a list of values, not 'TX'"):
            product(state="TX")
        with pytest.raises(UsageError, match="can be read only once"):
            product(state=iter(["TX"]))
        with pytest.raises(InputFileError, match="has no values for state 'CA'"):
            list(product(state=["CA"], city={"TX": ["Austin"]}).entries())
        with pytest.raises(InputFileError, match="one of them has no values"):
            check_file(product(state=["CA"], city=[]))


class TestTables:
    @pytest.mark.parametrize(
        "table",
        [
            {"urls": "urls.txt"},
            {"jobs": "jobs.jsonl"},
            {"csv": "c.csv", "url": "https://a.org/{x}", "key": "{x}", "partition": "{y}"},
            {"scan": "filings", "glob": "*.xml", "year": 2024, "limit": 10},
            {"sql": "shop.db", "query": "select 1 as n", "parameters": {"a": 1}},
            {"product": {"state": ["TX"], "city": ["Austin"]}, "url": "https://a.org/{city}"},
            {"python": "targets.py:cities"},
        ],
    )
    def test_each_source_can_be_said_in_a_table(self, table: dict[str, Any]) -> None:
        source, faults = source_in(table)
        assert isinstance(source, Source)
        assert faults == []

    def test_a_dimension_may_be_a_file_with_a_value_a_line(self, tmp_path: Path) -> None:
        (tmp_path / "states.txt").write_text("# all\nTX\n\nCA\n")
        source, _ = source_in({"product": {"state": str(tmp_path / "states.txt")}})
        assert source is not None
        assert payloads(source) == [{"state": "TX"}, {"state": "CA"}]

    @pytest.mark.parametrize(
        ("table", "faults"),
        [
            ({}, ["does not say where the jobs come from"]),
            ({"urls": "a", "csv": "b"}, ["has urls and csv"]),
            ({"scan": 3, "yaer": 1, "limit": "x"}, ["Did you mean 'year'?", "'scan' of its", "'limit' of its"]),
            ({"sql": "a.db"}, ["no 'query'"]),
            ({"csv": "a.csv", "url": "{"}, ["is not a template"]),
        ],
    )
    def test_everything_that_is_wrong_is_said_at_once(self, table: dict[str, Any], faults: list[str]) -> None:
        source, said = source_in(table)
        assert source is None
        assert len(said) == len(faults)
        for fault, expected in zip(said, faults, strict=True):
            assert expected in fault
