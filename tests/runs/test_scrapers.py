"""The registry: what is read, what a scraper has by default, and everything that is wrong with it at once (D6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore import Scraper, product
from longshore.errors import NotFoundError, SettingsError
from longshore.runs.scrapers.registry import find_scraper, load_scrapers, source_of
from longshore.runs.sources import CsvFile, Generated, Shape
from longshore.runs.submit.input_files import InputFile, InputFormat


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "india.py").write_text("")
    return tmp_path


def registry(folder: Path, text: str) -> dict[str, Scraper]:
    (folder / "longshore.toml").write_text(text)
    return load_scrapers(folder)


def test_a_scraper_without_a_mode_is_single(folder: Path) -> None:
    scraper = registry(folder, '[scrapers.India]\nhandler = "india.py"\nurls = "urls.txt"\n')["India"]
    assert (scraper.mode, scraper.distributed) == ("single", False)
    assert scraper.jobs == InputFile("urls.txt", InputFormat.URLS)


def test_a_table_says_everything_of_a_scraper(folder: Path) -> None:
    text = """
        [longshore]
        concurrency = 2
        [scrapers.India]
        handler = "india.py"
        mode = "distributed"
        kind = "page"
        partitions = ["North", "South"]
        settings = {concurrency = 4}
        source = {csv = "cities.csv", url = "https://a.org/{city}", partition = "{region}"}
    """
    shape = Shape(url="https://a.org/{city}", partition="{region}")
    assert registry(folder, text) == {
        "India": Scraper(
            "India",
            handler="india.py",
            mode="distributed",
            source=CsvFile("cities.csv", shape),
            kind="page",
            partitions=["North", "South"],
            settings={"concurrency": 4},
        )
    }


def test_a_setting_of_a_scraper_may_have_its_former_name() -> None:
    assert Scraper("India", settings={"max_failures": 3}).settings == {"max_empty_polls": 3}


def test_without_a_registry_there_are_no_scrapers(folder: Path) -> None:
    assert load_scrapers(folder) == {}
    assert registry(folder, "[longshore]\nconcurrency = 2\n") == {}


def test_a_wrong_registry_names_everything_that_is_wrong_at_once(folder: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        registry(
            folder,
            """
            [scrapers.India]
            handlr = "india.py"
            mode = "both"
            urls = "a.txt"
            jobs = "b.jsonl"
            partitions = ["N", "N"]
            settings = {concurency = 3, queue = "dir:///q", lease_seconds = 0, proxy_file = "http://me:hush@a.org/p"}
            [scrapers.Peru]
            handler = "peru.py"
            source = {csv = "a.csv", colour = "red"}
            [scrapers."no name"]
            handler = "india.py"
            [scrapers.india]
            handler = "india.txt"
            """,
        )
    said = str(refused.value)
    for fault in (
        "India: unknown 'handlr'. Did you mean 'handler'?",
        "India: its source has urls and jobs.",
        "India: it names no handler file.",
        "India: its mode cannot be 'both': it is 'single' or 'distributed'.",
        "India: its partitions list N more than once.",
        "India: unknown setting 'concurency'. Did you mean 'concurrency'?",
        "India: 'queue' cannot be one of its settings.",
        "India: its setting 'lease_seconds' cannot be 0: it takes a number of at least 1",
        "India: its setting 'proxy_file' holds a password.",
        "Peru: there is no handler file peru.py.",
        "Peru: unknown 'colour' in its source.",
        "no name: its name is made of letters",
        "india: its handler 'india.txt' is not a Python file.",
        "India and india: two scrapers have one name.",
    ):
        assert f"\n  - {fault}" in said
    assert said.count("\n  - ") == 14
    assert "hush" not in said


@pytest.mark.parametrize("text", ["scrapers = 3", "scrapers = [1]", "[scrapers]\nIndia = 3"])
def test_what_is_no_registry_at_all_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"must be a (file|table)"):
        registry(folder, text)


def test_scrapers_may_be_made_in_code_by_name_and_in_a_list(folder: Path) -> None:
    (folder / "registry_of_a_test.py").write_text(
        "from longshore import Scraper, product\n\n"
        'India = Scraper("India", handler="india.py", mode="distributed", source="urls.txt")\n'
        'scrapers = [India, Scraper("Peru", source=product(city=["Lima", "Cusco"]))]\n'
    )
    found = registry(folder, 'scrapers = "registry_of_a_test.py"')
    assert [*found] == ["India", "Peru"]
    assert found["India"].jobs == InputFile("urls.txt", InputFormat.URLS)
    # The file itself has its handler.
    assert found["Peru"].handler == "registry_of_a_test.py"
    assert [entry.payload for entry in product(city=["Lima", "Cusco"]).entries()] == [
        entry.payload
        for entry in found["Peru"].jobs.entries()  # type: ignore[union-attr]
    ]


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("x = 1", "there are no scrapers in"),
        ("scrapers = 3", "must be a list of Scraper"),
        ("scrapers = [3]", "holds 3, which is no Scraper"),
        ("raise KeyError('oops')", "oops"),
        (
            "from longshore import Scraper\nx = Scraper('A', mode='x')\ny = Scraper('B', kind='')",
            "(?s)A: its mode.*B: its kind",
        ),
    ],
)
def test_code_that_makes_no_registry_is_refused(folder: Path, code: str, fault: str) -> None:
    (folder / "wrong_registry_of_a_test.py").write_text(code)
    with pytest.raises(SettingsError, match=fault):
        registry(folder, 'scrapers = "wrong_registry_of_a_test.py"')


def test_an_unknown_scraper_is_refused_with_those_there_are(folder: Path) -> None:
    with pytest.raises(NotFoundError, match=r"There are none\. A table \[scrapers\.India\]"):
        find_scraper("India", folder)
    registry(folder, '[scrapers.India]\nhandler = "india.py"\n')
    with pytest.raises(NotFoundError, match="Did you mean India"):
        find_scraper("indai", folder)
    with pytest.raises(NotFoundError, match="There are: India"):
        find_scraper("Peru", folder)


def test_jobs_may_be_a_file_a_list_or_a_function() -> None:
    assert source_of("a.txt") == InputFile("a.txt", InputFormat.URLS)
    assert source_of(Path("a.jsonl")) == InputFile("a.jsonl", InputFormat.JOBS)
    assert isinstance(source_of(["https://a.org/"]), Generated)
    assert isinstance(source_of(lambda: ["https://a.org/"]), Generated)
