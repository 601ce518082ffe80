"""The recipe `filings` with its services: a model behind Ollama's routes, a Bolt server, the embedded graph."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.filings_speed import jobs, speeds
from tests.recipes.filings_scene import FilingsFolder, FilingsReplica
from tests.recipes.test_filings_run import QUICK
from tests.services.bolt import BoltServer
from tests.services.needing import needed
from tests.services.ollama import OllamaAdapter

from filings import config
from filings.edgar.submission import Submission, read_submission
from filings.facts.fact import RECORDS, Fact
from filings.facts.model import ModelReading, answer_of, facts_with_model
from filings.facts.ollama import Ollama, ensure
from filings.facts.rules import facts_of
from filings.graph import merge_filing, open_graph
from filings.graph.embedded import EmbeddedGraph
from filings.graph.merge import Graph
from filings.graph.rows import rows_of
from filings.handlers import _filing_record, _read
from filings.replica.layouts import file_of
from filings.replica.stories import Filing, filings
from longshore import ConnectionFailedError, LongshoreError, ProcessingError
from longshore.errors import UsageError

MODEL = "small:latest"


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[Callable[..., OllamaAdapter]]:
    made: list[OllamaAdapter] = []

    def make(answers: dict[str, Any] | None, *options: str) -> OllamaAdapter:
        made.append(OllamaAdapter(tmp_path, answers, *options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


Adapter = Callable[..., OllamaAdapter]


@pytest.fixture(scope="module")
def bolt() -> Iterator[BoltServer]:
    with needed():
        server = BoltServer()
    yield server
    server.stop()


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Set variables of the recipe, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def set_all(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


Use = Callable[..., None]


def officers() -> Filing:
    """An 8-K in HTML in which a person begins a role."""
    return next(
        each
        for each in filings()
        if each.form == "8-K"
        and each.filed.year == 2010
        and not each.fault
        and any(values.get("action") == "begins" for _, values in each.facts)
    )


def asked_model(read: Submission, facts: list[Fact]) -> ModelReading:
    return asyncio.run(facts_with_model(read, facts))


@pytest.mark.ledger("C4", "C8")
def test_what_a_model_invents_is_dropped_and_counted_and_the_rest_has_its_place(adapter: Adapter, use: Use) -> None:
    filing = officers()
    read = read_submission(file_of(filing))
    by_rules, _ = facts_of(read)
    person, title = next(
        (values["person"], values["title"]) for _, values in filing.facts if values.get("action") == "begins"
    )
    sentence = "Signatory of this report"
    answer = {
        "people": [person, "Nemo Nautilus", person.upper()],
        "companies": ["Atlantis Holdings LLC"],
        "roles": [
            {"person": person, "title": title.lower(), "action": "begins", "date": None},
            {"person": person, "title": "Grand Vizier", "action": "begins", "date": None},
            {"person": person, "title": "member of the Board", "action": "holds", "date": "1066-10-14"},
            {"person": "Nemo Nautilus", "title": title, "action": "ends", "date": "2010-01-01"},
        ],
        "relations": [{"kind": "acquired", "subject": "the Company", "object": "Atlantis Holdings LLC"}],
        "events": [{"title": sentence, "date": None}],
    }
    server = adapter({"of Directors": answer}, "--model", MODEL)
    use(OLLAMA_BASE_URL=server.url, OLLAMA_MODEL="small")
    found = asked_model(read, by_rules)
    assert found.facts[: len(by_rules)] == by_rules, "those of the rules come first, and none twice"
    new = [each for each in found.facts if each.found_by == "model"]
    assert all(each.kind != "person" for each in new), "the name in capitals is the same person"
    assert "Nemo" not in json.dumps([each.values for each in found.facts])
    assert "Atlantis" not in json.dumps([each.values for each in found.facts])
    assert found.dropped >= 6
    for each in new:
        RECORDS[each.kind].model_validate(each.record(filing.accession))
        for name, ground in each.grounds.items():
            assert read.text[ground.start : ground.end].strip(), name
    assert server.asked() == found.passages >= 1


def test_an_answer_that_is_no_json_is_counted(adapter: Adapter, use: Use) -> None:
    read = read_submission(file_of(officers()))
    by_rules, _ = facts_of(read)
    server = adapter({"": "I am sorry"}, "--model", MODEL)
    use(OLLAMA_BASE_URL=server.url, OLLAMA_MODEL=MODEL)
    found = asked_model(read, by_rules)
    assert found.facts == by_rules
    assert found.unreadable == found.passages >= 1


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "3", "[" * 100_000])
def test_an_answer_that_is_no_object_is_none(text: str) -> None:
    assert answer_of(text) == (None, 0)


@pytest.mark.parametrize(
    ("answer", "people", "pruned"),
    [
        ({"people": "all"}, 0, 1),
        ({"people": ["Ann Bee", 7, None, {"name": "x"}], "planets": ["Mars"]}, 1, 3),
        ({"people": ["Ann Bee"], "roles": [{"person": "Ann Bee", "title": "x", "action": "haunts"}]}, 1, 1),
        ({"people": [], "relations": [{"kind": "loves"}], "events": [{"title": 3}]}, 0, 2),
    ],
)
def test_entries_that_the_schema_does_not_know_are_pruned(answer: dict[str, Any], people: int, pruned: int) -> None:
    parsed, dropped = answer_of(json.dumps(answer))
    assert parsed is not None
    assert (len(parsed.people), dropped) == (people, pruned)
    assert not [*parsed.roles, *parsed.relations, *parsed.events]


@pytest.mark.ledger("C8")
def test_the_model_is_loaded_at_the_first_start_with_progress(adapter: Adapter) -> None:
    server, said = adapter({}), list[str]()
    ensure(server.url, "small", said.append)
    assert said[0] == f"The model small is not in Ollama at {server.url} yet; it is loaded now."
    assert "  pulling 74a4da8c9fdb: 50 % of 92 MB" in said
    assert said[-1] == "  success"
    ensure(server.url, "small", said.append)
    assert said[-1] == "  success", "it is there"
    with pytest.raises(ProcessingError, match="cannot load nosuch: pull model manifest: file does not exist"):
        ensure(server.url, "nosuch", said.append)


@pytest.mark.ledger("C7")
def test_each_trouble_with_ollama_names_the_fix(adapter: Adapter, use: Use) -> None:
    read = read_submission(file_of(officers()))
    use(OLLAMA_BASE_URL="http://127.0.0.1:1", OLLAMA_MODEL="small")
    with pytest.raises(ConnectionFailedError, match="USE_AI_EXTRACTION=false"):
        asked_model(read, [])
    use(OLLAMA_BASE_URL=adapter({}).url)
    with pytest.raises(ProcessingError, match="model 'small' not found") as missing:
        asked_model(read, [])
    assert not missing.value.retryable
    use(OLLAMA_BASE_URL="nonsense")
    with pytest.raises(LongshoreError, match="OLLAMA_BASE_URL"):
        asyncio.run(Ollama(config.ollama_url()).models())


def test_a_real_small_model_answers_by_the_schema(adapter: Adapter, use: Use, *, long: bool) -> None:
    if not long:
        pytest.skip("the long form: --long")
    with needed():
        server = adapter(None)
    ensure(server.url, "smollm2", lambda line: None)
    read = read_submission(file_of(officers()))
    by_rules, _ = facts_of(read)
    use(OLLAMA_BASE_URL=server.url, OLLAMA_MODEL="smollm2", OLLAMA_TIMEOUT_SECONDS="1800")
    found = asked_model(read, by_rules)
    assert server.asked() == found.passages >= 1
    assert found.facts[: len(by_rules)] == by_rules
    for each in found.facts[len(by_rules) :]:
        RECORDS[each.kind].model_validate(each.record("x"))
        assert all(read.text[ground.start : ground.end].strip() for ground in each.grounds.values())


@pytest.mark.ledger("C6")
@pytest.mark.parametrize("workers", [2, 4])
def test_workers_wait_for_the_model_at_the_same_time(
    workers: int, tmp_path: Path, adapter: Adapter, *, long: bool
) -> None:
    if workers > 2 and not long:
        pytest.skip("the long form: --long")
    # No question is answered before as many wait as there are workers, or a minute has passed.
    server = adapter({}, "--model", MODEL, "--together", str(workers))
    replica = FilingsReplica(*QUICK)
    settings = {"USE_AI_EXTRACTION": "true", "OLLAMA_BASE_URL": server.url, "OLLAMA_MODEL": "small"}
    folder = FilingsFolder(tmp_path / "here", replica, **settings)
    try:
        jobs(replica.url, 4 * workers, folder.folder / "jobs.jsonl")
        folder.run("longshore", "submit", "filing", "--jobs-file", "jobs.jsonl", "--run", "speed")
        folder.finish(folder.start("filings.worker", "--until-done", "--workers", str(workers)))
        assert folder.counts("speed") == {"claimed": 0, "completed": 4 * workers, "failed": 0, "pending": 0}
        assert server.asked() == 4 * workers
        assert server.met()
    finally:
        folder.kill_all()
        replica.stop()


@pytest.mark.ledger("C6")
def test_two_workers_are_twice_as_fast_as_one_and_four_four_times(*, long: bool) -> None:
    if not long:
        pytest.skip("the long form: --long")
    times = speeds(jobs_each=40, seconds=3, turns=1)
    assert times[1] >= 1.95 * times[2]
    assert times[1] >= 3.8 * times[4]


def merge_all(chosen: list[Filing]) -> None:
    for filing in chosen:
        reading = _read(file_of(filing), filing.accession)
        merge_filing(_filing_record(reading, {"form": filing.form, "filed": "", "url": filing.path}), reading.facts)


def content(graph: Graph) -> dict[str, list[str]]:
    """All nodes and relations, as lines that can be compared."""
    found = {}
    for label, properties in (
        ("Company", "n.name, n.cik, n.sic, n.state"),
        ("Person", "n.name, n.cik"),
        ("Filing", "n.form, n.filed, n.period"),
        ("Event", "n.item, n.title, n.day"),
    ):
        rows = graph.query(f"MATCH (n:{label}) RETURN n.id, {properties}")
        found[label] = sorted(json.dumps(list(row.values())) for row in rows)
    for kind, properties in (
        ("FILED", "r.key"),
        ("HAS_ROLE", "r.title, r.action, r.valid_from, r.valid_to, r.as_of, r.source"),
        ("HELD", "r.title, r.valid_from, r.valid_to"),
        ("OWNS", "r.shares, r.percent, r.detail, r.valid_from, r.source"),
        ("ACQUIRED", "r.price, r.valid_from, r.source"),
        ("AUDITOR", "r.valid_from, r.valid_to, r.source"),
        ("SUBSIDIARY", "r.source"),
        ("ACQUIRED_SHARES", "r.shares, r.price"),
        ("HAPPENED_AT", "r.source"),
        ("MENTIONED_IN", "r.part"),
    ):
        rows = graph.query(f"MATCH (a)-[r:{kind}]->(b) RETURN a.id, b.id, {properties}")
        found[kind] = sorted(json.dumps(list(row.values())) for row in rows)
    return found


CHOSEN = [each for each in filings() if each.filed.year == 2010 and each.form in ("8-K", "4", "SC 13D")][:5]


@pytest.mark.ledger("C4")
def test_a_graph_is_the_same_whatever_is_merged_again_and_in_which_order(use: Use, bolt: BoltServer) -> None:
    use(FILINGS_GRAPH="embedded.lbug", NEO4J_URI="")
    merge_all(CHOSEN)
    merge_all(CHOSEN[::-1])
    embedded = open_graph()
    use(**bolt.settings)
    server = open_graph()
    assert isinstance(embedded, EmbeddedGraph)
    assert server is not None
    # Several workers at once, with the same filings: conflicts are tried again.
    threads = [threading.Thread(target=merge_all, args=(part,)) for part in (CHOSEN, CHOSEN[::-1])]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with embedded, server:
        in_file, on_server = content(embedded), content(server)
        assert server.query("SHOW CONSTRAINTS"), "ids are unique"
    assert in_file == on_server
    for kind, rows in in_file.items():
        assert len(set(rows)) == len(rows), kind
    assert len(in_file["Filing"]) == len(CHOSEN)
    facts = sum(len(rows) for kind, rows in in_file.items() if kind not in ("HELD", "Filing"))
    assert facts > 40


@pytest.mark.ledger("C4")
@pytest.mark.parametrize("medium", ["embedded", "bolt"])
def test_what_a_later_reading_does_not_find_any_more_goes_from_the_graph(
    medium: str, use: Use, request: pytest.FixtureRequest, *, long: bool
) -> None:
    if medium == "bolt" and not long:
        pytest.skip("the long form: --long")
    if medium == "embedded":
        use(FILINGS_GRAPH="graph.lbug", NEO4J_URI="")
    else:
        use(**request.getfixturevalue("bolt").settings)
    filing = officers()
    reading = _read(file_of(filing), filing.accession)
    own = _filing_record(reading, {"form": "8-K", "filed": "", "url": "u"})
    merge_filing(own, reading.facts)
    kept = [each for each in reading.facts if each.kind == "company"]
    held = "MATCH (a:Person)-[r:HELD]->(b:Company) WHERE a.id IN $people RETURN r.title AS title"
    said = "MATCH (a)-[r:HAS_ROLE]->(b) WHERE r.source = $source RETURN r.title AS title"
    people = rows_of(own, reading.facts).people()
    graph = open_graph()
    assert graph is not None
    with graph:
        assert graph.query(held, people=people)
        assert graph.query(said, source=filing.accession)
    merge_filing(own, kept)
    with graph:
        assert graph.query(said, source=filing.accession) == []
        assert graph.query(held, people=people) == [], "nor what was joined of it"
        assert graph.query("MATCH (n:Event) WHERE n.source = $source RETURN n.id AS id", source=filing.accession) == []


@pytest.mark.ledger("C7")
@pytest.mark.parametrize(
    ("variables", "error", "said"),
    [
        ({"NEO4J_URI": "bolt://127.0.0.1:1"}, ConnectionFailedError, "Fix: start Neo4j, or set NEO4J_URI"),
        ({"NEO4J_URI": "nonsense"}, UsageError, "NEO4J_URI cannot be"),
    ],
)
def test_each_trouble_with_the_graph_names_the_fix(
    variables: dict[str, str], error: type[LongshoreError], said: str, use: Use
) -> None:
    use(NEO4J_USER="neo4j", NEO4J_PASSWORD="tide-and-time", **variables)
    graph = open_graph()
    assert graph is not None
    with pytest.raises(error, match=re.escape(said)) as raised, graph:
        graph.query("RETURN 1")
    assert "tide-and-time" not in str(raised.value)


@pytest.mark.ledger("C4", "C7", "C8")
def test_load_graph_with_a_model_and_a_bolt_server(tmp_path: Path, adapter: Adapter, bolt: BoltServer) -> None:
    server = adapter({})
    replica = FilingsReplica(*QUICK)
    settings = {"USE_AI_EXTRACTION": "true", "OLLAMA_BASE_URL": server.url, "OLLAMA_MODEL": "small"}
    folder = FilingsFolder(tmp_path / "here", replica, **settings, **bolt.settings, WORKER_ID="office-1")
    try:
        tested = folder.run("filings.cli", "test-db", "--neo4j", "--ollama", code=1).stdout
        assert f"✓ Neo4j: Bolt server bolt://127.0.0.1:{bolt.port}, database filings" in tested
        assert "✗ Ollama" in tested
        assert "has no model small" in tested
        folder.write_env(**(folder.variables | {"NEO4J_PASSWORD": "wrong"}))
        refused = folder.run("filings.cli", "test-db", "--neo4j", code=1).stdout
        assert "✗ Neo4j: " in refused
        assert "Fix: NEO4J_USER and NEO4J_PASSWORD in .env" in refused
        folder.write_env(**folder.variables)
        said = folder.run("filings.cli", "load-graph", "--year", "2010", "--limit", "4")
        assert "The model small is not in Ollama" in said.stderr
        assert "filings    4 read, 0 failed, 0 left" in said.stdout
        assert server.asked() >= 2
        assert "✓ Ollama" in folder.run("filings.cli", "test-db").stdout
        shown = folder.run("filings.cli", "query", "MATCH (n:Filing) RETURN count(n) AS filings").stdout
        assert json.loads(shown)["filings"] >= 4
        assert "office-1" in folder.run("longshore", "jobs", "--json").stdout
        asked = server.asked()
        folder.run("filings.coordinator", "--year", "2010", "--limit", "6", "--no-ai", "--run", "plain")
        folder.finish(folder.start("filings.worker", "--until-done", "--workers", "1"))
        assert server.asked() == asked, "jobs made with --no-ai ask no model"
    finally:
        replica.stop()
        folder.kill_all()
