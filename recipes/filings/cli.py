"""Load filings into the graph, test the services, ask the graph.

python -m filings.cli load-graph --year 2010 --limit 10 [--distributed]
python -m filings.cli test-db [--neo4j] [--ollama]
python -m filings.cli query "MATCH (p:Person)-[r:HELD]->(c:Company) RETURN p.name, r.title, c.name"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from filings import config, worker
from filings.coordinator import submit, watch
from filings.facts.ollama import Ollama
from filings.graph import check_graph, open_graph
from longshore import LongshoreError
from longshore.errors import UsageError


def load_graph(given: argparse.Namespace) -> int:
    """Read the filings of a year and merge them: by workers anywhere, or by two of our own."""
    config.prepare(config.queue_of(given.queue_dir))
    print(f"The graph is: {check_graph()}")
    run = given.run or f"filings-{given.year}"
    submit(given.year, given.limit, run, ai=not given.no_ai and config.uses_model())
    if given.distributed:
        return watch(run)
    code = worker.main(["--until-done", *([] if given.queue_dir is None else ["--queue-dir", given.queue_dir])])
    return code or watch(run)


def test_db(given: argparse.Namespace) -> int:
    """Connect to each service, and say what is there, or what is wrong and how to fix it."""
    config.prepare(config.queue_of(None))
    everything = not (given.neo4j or given.ollama)
    good = True
    if given.neo4j or everything:
        if given.neo4j and config.neo4j() is None:
            print("✗ Neo4j: NEO4J_URI is not set. Fix: NEO4J_URI=bolt://127.0.0.1:7687 in .env")
            good = False
        else:
            good &= _shown("Neo4j" if config.neo4j() else "Graph", check_graph)
    if given.ollama or (everything and config.uses_model()):
        good &= _shown("Ollama", lambda: asyncio.run(_ollama()))
    return 0 if good else 1


async def _ollama() -> str:
    ollama, model = Ollama(config.ollama_url(), seconds=60), config.ollama_model()
    if not await ollama.has(model):
        there = ", ".join(await ollama.models()) or "none"
        raise UsageError(
            f"{ollama.url} answers, but has no model {model} (it has: {there}). The first worker loads it, or: "
            f"ollama pull {model}"
        )
    return f"{ollama.url} has the model {model}"


def _shown(name: str, check: object) -> bool:
    try:
        print(f"✓ {name}: {check()}")  # type: ignore[operator]
    except LongshoreError as error:
        print(f"✗ {name}: {error}")
        return False
    return True


def query(given: argparse.Namespace) -> int:
    """Print the rows that a statement returns, a line of JSON for each."""
    config.prepare(config.queue_of(None))
    graph = open_graph()
    if graph is None:
        raise UsageError("There is no graph: FILINGS_GRAPH is none.")
    with graph:
        for row in graph.query(given.statement):
            print(json.dumps(row, ensure_ascii=False, default=str))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command, and return its exit code."""
    given = _options().parse_args(arguments)
    try:
        return int(given.command(given))
    except LongshoreError as error:
        print(f"cli: {error}", file=sys.stderr)
        return error.exit_code


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m filings.cli", description="Load, test and ask the graph.")
    commands = options.add_subparsers(required=True, metavar="COMMAND")
    load = commands.add_parser("load-graph", help="read the filings of a year and merge them into the graph")
    load.add_argument("--year", type=int, required=True)
    load.add_argument("--limit", type=int, metavar="N", help="only the first N filings of the lists")
    load.add_argument("--distributed", action="store_true", help="leave the work to workers that run anywhere")
    load.add_argument("--no-ai", action="store_true", help="find facts by rules alone")
    load.add_argument("--queue-dir", metavar="PATH", help="the folder of the queue (QUEUE_DIR, data/queue)")
    load.add_argument("--run", help="the name of the run (filings-YEAR)")
    load.set_defaults(command=load_graph)
    test = commands.add_parser("test-db", help="test the connection to each service")
    test.add_argument("--neo4j", action="store_true", help="only Neo4j")
    test.add_argument("--ollama", action="store_true", help="only Ollama")
    test.set_defaults(command=test_db)
    ask = commands.add_parser("query", help="print the rows of a Cypher statement that reads")
    ask.add_argument("statement")
    ask.set_defaults(command=query)
    return options


if __name__ == "__main__":
    sys.exit(main())
