"""The shape of the source tree, which a reader may rely on. `pyproject.toml` has the rules for imports."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "longshore"
MOST_FILES, MOST_ARGUMENTS, LONGEST_WORKER = 20, 8, 300
MEANINGLESS = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield path, node


def method(found: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((each for each in found.body if isinstance(each, ast.FunctionDef) and each.name == name), None)


def test_a_folder_has_at_most_twenty_files() -> None:
    folders = [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]
    assert {str(folder): number for folder in folders if (number := len(list(folder.glob("*.py")))) > MOST_FILES} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [path for path in SOURCE.rglob("*.py") if path.stem in MEANINGLESS] == []


def test_a_public_class_name_is_used_once() -> None:
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(SOURCE).as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_constructor_takes_at_most_eight_arguments() -> None:
    too_many = {}
    for path, found in classes():
        if (init := method(found, "__init__")) is not None:
            number = len(init.args.posonlyargs) + len(init.args.args) + len(init.args.kwonlyargs) - 1
            if number > MOST_ARGUMENTS:
                too_many[f"{path.relative_to(SOURCE)}: {found.name}"] = number
    assert too_many == {}


def test_no_class_forwards_what_it_does_not_name() -> None:
    forwarding = {found.name for _, found in classes() if method(found, "__getattr__")}
    # It takes the place of a standard stream, whose attributes are Python's.
    assert forwarding == {"CapturedStream"}


def test_one_function_waits_for_the_first_of_several() -> None:
    assert [path.name for path in SOURCE.rglob("*.py") if "FIRST_COMPLETED" in path.read_text()] == ["first_of.py"]


def test_jobs_are_claimed_and_settled_only_where_a_worker_queue_is_named() -> None:
    """A bare queue takes jobs of paused runs, and adds jobs beyond the limits of a run. Mypy checks the types."""
    calling = set()
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        text = path.read_text()
        # The media, the wrappers themselves and the suite that tests the media.
        if place.parts[0] in {"media", "wrappers", "conformance"} or "WorkerQueue" in text:
            continue
        for node in ast.walk(ast.parse(text)):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in {"claim", "settle"}:
                calling.add(place.as_posix())
    # These call another module of ours, which has the queue.
    assert calling == {
        "handlers/worker_class.py",  # LeaseKeeper
        "server/api/leases.py",  # Served.working
        "server/api/tasks/routes.py",  # Served.working
        "worker/loop/claimer.py",  # JobSource
        "worker/loop/job_source.py",  # WorkerContext.queue
        "worker/loop/settler.py",  # SettlementWriter
    }


def test_the_worker_is_assembled_in_a_file_that_can_be_read_at_once() -> None:
    assert len((SOURCE / "worker" / "worker.py").read_text().splitlines()) < LONGEST_WORKER


def test_each_decision_has_a_number_of_its_own() -> None:
    pages = [path.name for path in (SOURCE.parents[1] / "docs" / "decisions").glob("[0-9]*.md")]
    assert sorted(int(name[:4]) for name in pages) == list(range(1, len(pages) + 1))
