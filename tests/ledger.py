"""docs/ledger.md: for each capability that Longshore promises, the tests that show it end to end.

    python -m tests.ledger

writes the page again, from the `ledger` markers of the tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "ledger.md"

SECTIONS = {
    "A": "A fleet that a git repository coordinates",
    "B": "Workers that share the partitions of a database",
    "C": "Documents into a graph",
    "D": "A queue of URLs with an orchestrator",
    "E": "Tasks over HTTP, and the kit of a worker",
    "F": "Everywhere",
}

LINES = {
    "A1": "a host publishes work into a git repository, workers anywhere take it and push results, the host collects",
    "A2": "the repository reads well on a web page: folders by state, one JSON file for each job",
    "A3": "one worker gets each job, by the push itself; a lost race costs a retry and is counted",
    "A4": "a worker stops after a number of jobs, empty polls or idle hours, or by a condition of the user's own",
    "A5": "without work it waits longer and longer, and says what is left of each limit",
    "A6": "worker ids are unique; several workers on one machine need no set-up",
    "A7": "the machine stays awake while work runs, if it can",
    "A8": "profiles for development, testing and production; each setting can be overridden",
    "A9": "a profile that requires a VPN works only with it, also when it drops while work runs",
    "A10": "the variables of the older git fleet are read from .env",
    "A11": "network errors, conflicts, processing errors and system errors: each is answered in its own way",
    "A12": "output that a person can follow, with phrases that stay as they are",
    "A13": "completed work is archived and cleaned up, so that the repository stays small",
    "A14": "completion, success, claims and utilisation by a command",
    "A15": "work of one's own is one function or one class",
    "A16": "corporate proxies and the settings of git are honoured",
    "A17": "Chrome through Selenium, with a driver that is found by itself",
    "A18": "each failure that a manual would list ends in one message with its cause and its fix",
    "A19": "one command starts a worker, also where scripts are not on the path",
    "A20": "`doctor --report` writes what a helper asks for, without secrets",
    "B1": "partitions are divided evenly among workers, checked and shown; a fixed table can be given",
    "B2": "any number of workers covers every partition, and idle ones help",
    "B3": "PostgreSQL claims by partition, priority and age, and no worker waits for another",
    "B4": "proxies from a file: strategies, shares, blacklisting, all usual forms",
    "B5": "a launcher checks everything, shows the plan, asks and starts",
    "B6": "workers start one after another",
    "B7": "a log for each worker, the fleet and the proxies; another terminal stops the fleet gently",
    "B8": "a random delay between targets, which can be changed while workers run",
    "B9": "a browser is kept for many pages and then replaced",
    "B10": "a crashed worker is started again, and what it held comes back by itself",
    "B11": "Ctrl-C finishes the work at hand; a second one gives it back",
    "B12": "refusals slow the fleet down for that host, and it becomes faster again by itself",
    "B13": "a filter accepts or rejects each record, with counts and reasons",
    "B14": "targets are made from states, cities and categories; making them again changes nothing",
    "B15": "the state of the work at any time; several machines on one database",
    "B16": "the variables of the older partitioned fleet are read from .env",
    "C1": "a coordinator makes jobs of filings, waits with progress, or leaves and waits later",
    "C2": "a queue that is only a folder, safe with many processes",
    "C3": "the jobs of a crashed worker come back by themselves",
    "C4": "filings are parsed, facts extracted by rules or a language model, and merged into a graph",
    "C5": "services and workers by one compose file",
    "C6": "two workers take half the time of one, four a quarter",
    "C7": "graph loading by one command, and a test of each service",
    "C8": "the variables of the older document fleet; the model is fetched when it is missing",
    "C9": "a run can be removed without touching another",
    "D1": "enqueueing is idempotent by canonical URL; files of any length are read line by line",
    "D2": "batches are claimed at once under leases that are renewed; four attempts, and the error is kept",
    "D3": "each worker has a Tor and a browser of its own",
    "D4": "runs with an id and statistics of their own",
    "D5": "a worker ends by itself when its run is done",
    "D6": "a registry of scrapers, single or distributed; a start routes by itself, prints JSON, and resumes",
    "D7": "the number of workers follows the depth of the queue, up and down, and nothing is lost",
    "D8": "metrics for Prometheus, a dashboard and alerts",
    "D9": "command line, Python, HTTP and web page do and tell the same",
    "E1": "tasks over HTTP, for workers in any language",
    "E2": "a `Worker` class whose methods can be overridden one by one",
    "E3": "command line over environment over file over default, and the help says which is set by what",
    "E4": "parameters are checked before the work; all faults are named at once, and never retried",
    "E5": "one envelope for results and errors; a returned failure is a failure",
    "E6": "timeouts that really end the work",
    "E7": "each kind of error says whether a retry may help",
    "E8": "`retry` for plain and async functions, with growing waits",
    "E9": "logs as JSON, with a context of one's own",
    "E10": "handlers are tested in memory, with a manual clock",
    "E11": "a systemd unit and a Dockerfile",
    "E12": "keys with scopes, HTTPS or a warning, bounded inputs, no secret in a log",
    "E13": "connections that are kept, retries, a cache, and calls in batches",
    "E14": "metrics and a health check of a worker",
    "E15": "results and errors of the parts of a job, side by side",
    "E16": "the flags and variables of the older task manager",
    "F1": "one contract on five media, checked by one suite with real processes",
    "F2": "a worker that lost its lease changes nothing, by any way",
    "F3": "a run moves between media with its state; work offline is merged back",
    "F4": "the rate of each host is learned and shared",
    "F5": "failures are kept with their page and replayed offline",
    "F6": "an estimate that names what binds",
    "F7": "a live web page and a live terminal view, down to one job",
    "F8": "pages that were kept are parsed again without a request",
    "F9": "a simulator of fleets",
    "F10": "code travels with the queue, and runs only when it was accepted",
    "F11": "records, pages and failure bundles in one place, durable before they are settled",
    "F12": "a history checker over media and faults, which finds broken twins",
    "F13": "block pages with status 200 are refusals, and missing fields and new records are noticed",
}

WAITING = frozenset({"F9"})
"""Lines that no test shows yet. A line that has a test must be taken out."""


def shown(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the tests that show each line, as `tests/file.py::name`, in order."""
    found: dict[str, list[str]] = {}
    for file in sorted((root / "tests").rglob("test_*.py")):
        for name, lines in _marked(ast.parse(file.read_text(encoding="utf-8"))):
            for line in lines:
                found.setdefault(line, []).append(f"{file.relative_to(root).as_posix()}::{name}")
    return found


def page(found: Mapping[str, Iterable[str]]) -> str:
    """Return the text of docs/ledger.md."""
    parts = [
        "# Capabilities and the tests that show them",
        "",
        "Each capability, and the tests that show it end to end, on real parts. A class stands for all of its tests.",
        "The page is generated by `python -m tests.ledger` from the `ledger` markers of the tests.",
    ]
    for letter, title in SECTIONS.items():
        parts += ["", f"## {letter}. {title}", "", "| line | capability | shown by |", "|---|---|---|"]
        for line, meaning in LINES.items():
            if line.startswith(letter):
                tests = "<br>".join(f"`{each.removeprefix('tests/')}`" for each in found.get(line, ())) or "no test yet"
                parts.append(f"| {line} | {meaning} | {tests} |")
    return "\n".join(parts) + "\n"


def _marked(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each marked test or class of tests, with its lines."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        name = f"{prefix}{node.name}"
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.ledger":
                yield name, [ast.literal_eval(each) for each in decorator.args]
        if isinstance(node, ast.ClassDef):
            yield from _marked(node, f"{name}::")


if __name__ == "__main__":
    PAGE.write_text(page(shown()), encoding="utf-8")
