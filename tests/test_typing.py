"""The public API is typed: `py.typed` is shipped, no public signature says `Any`, a handler's mistakes are found."""

from __future__ import annotations

import ast
import importlib.resources
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import longshore
import longshore.conformance
import longshore.testing

SOURCES = Path(longshore.__file__).parents[1]

UNCHECKED = {
    "Json": "a value read from JSON, as with json.loads",
    "Keep": "a filter of the user's own, for records of the user's own types",
    "DriverPage": "the page of Playwright or Selenium, as a setting says",
    "Worker.process_task": "an override names the kit that fits it, async or plain",
    "TaskOrId": "a task or its id: an override names the one that it was written for",
    "ErrorOrText": "an exception or its message: an override names the one that it was written for",
    "Returned": "what a handler function returns: a value, or an awaitable of one",
    "Handler.__call__": "any handler; one made by @handler is called as its function is, with its types",
    "LoopThread.call": "what a coroutine and its event loop tell each other",
}
"""What may say `Any`, and why."""


def test_the_package_says_that_it_is_typed() -> None:
    assert (importlib.resources.files("longshore") / "py.typed").is_file()


def test_the_wheel_has_the_mark_of_a_typed_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=SOURCES.parent, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert "longshore/py.typed" in zipfile.ZipFile(wheel).namelist()


HANDLERS = """\
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from longshore import AsyncKit, Job, Kit, Result, SyncKit, Task, Worker, handler, new_job


class Item(BaseModel):
    name: str


@handler("page", emits={"item": Item}, keep=lambda record, kind: record.name != "")
async def page(job: Job, kit: AsyncKit) -> Result:
    response = await kit.http.get(job.payload["url"], timeout=timedelta(seconds=3))
    async with kit.browser.page() as tab:
        opened = await tab.open(response.url)
        size: int = await tab.do(measured)
    async with kit.proxies.turn("example.org") as turn:
        kit.log.info("fetched", status=opened.status, proxy=str(turn.proxy), size=size)
    kit.emit(Item(name=await kit.tor.proxy("cart-7")), kind="item")
    return Result({"length": len(response.text)}, jobs=[new_job("page", {"url": response.url})])


async def measured(driver: object) -> int:
    return len(str(driver))


@handler("plain")
def plain(job: Job, kit: SyncKit) -> str:
    response = kit.http.get(job.payload["url"])
    with kit.browser.page() as tab:
        tab.open(response.url)
        text = tab.html() + tab.do(lambda driver: str(driver))
    with kit.proxies.turn("example.org") as turn:
        turn.answered(200)
    kit.log.info("parsed", proxy=kit.tor.proxy("cart-7"), by=turn.url)
    return text


@handler("item", params=Item)
def item(params: Item, kit: SyncKit) -> str:
    noted(kit)
    return params.name


def noted(kit: Kit) -> None:
    kit.emit({"noted": True})


class Pages(Worker):
    async def process_task(self, task: Task[AsyncKit]) -> int:
        return len((await task.kit.http.get(task.params["url"])).body)


class Files(Worker):
    def process_task(self, task: Task[SyncKit]) -> int:
        return len(task.kit.http.get(task.params["url"]).body)


class Either(Worker):
    def process_task(self, task: Task) -> str:
        task.kit.log.info("begun")
        return task.id


class AsDicts(Worker):
    def __init__(self, api_url: str, worker_id: str, config: dict[str, Any]) -> None:
        super().__init__(api_url, worker_id, config)
        self.pause: float = self.config["poll_interval"]

    def process_task(self, task: dict[str, Any]) -> dict[str, Any]:
        return {"success": True, "data": task.get("params", {})["n"], "id": task["id"]}

    def complete_task(self, task_id: str, result: dict[str, Any]) -> None:
        super().complete_task(task_id, result)

    def fail_task(self, task_id: str, error: str) -> bool | None:
        return super().fail_task(task_id, error)

    def run(self) -> int:
        task = self.claim_task()
        if task is not None:
            self.complete_task(task["id"], self.process_task(task))
            self.stats["processed"] += 1
            self.stats["processed"] = "one"  # assignment
        return self.stats["failed"] + self.stats.completed


@handler("untyped")
def untyped(url, kit):  # no-untyped-def
    return kit.http.get(url)


@handler("wrong")
async def wrong(job: Job, kit: AsyncKit) -> None:
    await kit.http.gett("https://example.org/")  # attr-defined
    kit.http.get("https://example.org/").text  # attr-defined
    kit.http.get("https://example.org/")  # unused-coroutine
    await kit.http.get("https://example.org/", chek=False)  # call-arg
    kit.browser.pagee()  # attr-defined
    kit.emit(1, kind=2)  # arg-type
    kit.log.inform("fetched")  # attr-defined
    kit.proxies.turns("example.org")  # attr-defined
    await kit.tor.proxies()  # attr-defined


@handler("wrong plain")
def wrong_plain(job: Job, kit: SyncKit) -> None:
    kit.http.gett("https://example.org/")  # attr-defined
    kit.http.get("https://example.org/").txt  # attr-defined
    kit.browser.pagee()  # attr-defined
    kit.emit(1, kind=2)  # arg-type
    kit.log.inform("fetched")  # attr-defined
    kit.proxies.turns("example.org")  # attr-defined
    kit.tor.proxies()  # attr-defined


def calling(kit: SyncKit, both: Kit) -> int:
    item("x", kit)  # arg-type
    both.http  # attr-defined
    return item(Item(name="x"), kit=kit)  # return-value
"""
"""Handlers as people write them; where a line is wrong, it ends with what mypy calls the fault."""


def test_mypy_accepts_typed_handlers_and_finds_every_mistake(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    check_marked_faults(HANDLERS, tmp_path, pytestconfig)


def check_marked_faults(source: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Check the types of a file; mypy must find the faults that its lines end with, and no others."""
    (tmp_path / "handlers.py").write_text(source)
    assert pytestconfig.cache is not None
    # Kept from one run to the next: reading all that a handler imports takes several seconds.
    cache = pytestconfig.cache.mkdir("mypy")
    check = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", "handlers.py"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = re.findall(r"^handlers\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    marked = [(number, line) for number, line in enumerate(source.splitlines(), 1) if "  # " in line]
    assert [(int(number), code) for number, code in said] == [
        (number, line.rpartition("  # ")[2]) for number, line in marked
    ], done.stdout + done.stderr


SETTLING = """\
from longshore.clock import SystemClock
from longshore.queue import Queue
from longshore.runs.transfer.move_jobs import Move
from longshore.runs.transfer.offline_checkout import CheckoutFile, check_out
from longshore.runs.transfer.offline_merge import merge
from longshore.settlement.orphaned_leases import OrphanedLeases
from longshore.worker.kit.attempt_records import AttemptRecords
from longshore.worker.loop.settlement_writer import SettlementWriter
from longshore.wrappers.admission import Admission
from longshore.wrappers.worker_queue import WorkerQueue


async def settling(bare: Queue, file: CheckoutFile, orphans: OrphanedLeases, records: AttemptRecords) -> None:
    clock = SystemClock()
    queue = WorkerQueue(bare, clock)
    SettlementWriter(queue, records)
    SettlementWriter(bare, records)  # arg-type
    await orphans.give_back(bare, frozenset())  # arg-type
    Admission(bare, clock)  # arg-type
    Move(bare, bare, "r", route=("a", "b"))  # arg-type
    await check_out(bare, bare, file, progress=print)  # arg-type
    await merge(bare, bare, file, clock, progress=print)  # arg-type
"""


def test_mypy_accepts_no_bare_queue_where_jobs_are_claimed_or_settled(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """On a bare queue, paused runs and the limits of a run would not count."""
    check_marked_faults(SETTLING, tmp_path, pytestconfig)


def test_no_public_signature_says_any() -> None:
    walk = Walk(SOURCES)
    for package in (longshore, longshore.testing, longshore.conformance):
        for name in package.__all__:
            walk.visit(package.__name__, name)
    assert walk.found == []
    assert walk.excused == set(UNCHECKED)
    # The walk has gone as far as the tools of the kit, and what they return.
    assert {"SyncKit", "Response", "SyncPage", "ProxyTurn"} <= {name.rpartition(".")[2] for name in walk.visited}


def test_the_walk_finds_any_behind_an_alias_in_another_module(tmp_path: Path) -> None:
    (tmp_path / "longshore").mkdir()
    (tmp_path / "longshore" / "a.py").write_text("from longshore.b import Alias\ndef f(x: list[Alias]) -> None: ...\n")
    (tmp_path / "longshore" / "b.py").write_text("from typing import Any\nAlias = dict[str, Any]\n")
    walk = Walk(tmp_path)
    walk.visit("longshore.a", "f")
    assert walk.found == ["longshore.b.Alias"]


def test_the_walk_finds_any_in_fields_and_methods_of_classes(tmp_path: Path) -> None:
    (tmp_path / "longshore").mkdir()
    (tmp_path / "longshore" / "a.py").write_text(
        "from typing import Any\n"
        "class Base:\n    def run(self, *args: Any) -> int: ...\n"
        "class Made(Base):\n    field: Any\n    _own: Any\n    def _private(self) -> Any: ...\n"
        "def make() -> Made: ...\n"
    )
    walk = Walk(tmp_path)
    walk.visit("longshore.a", "make")
    assert sorted(walk.found) == ["longshore.a.Base.run", "longshore.a.Made.field"]


@dataclass
class Walk:
    """Goes from a public name through its signatures to every name of Longshore that they mention."""

    sources: Path

    def __post_init__(self) -> None:
        self.found: list[str] = []
        """What says `Any`."""
        self.excused: set[str] = set()
        self.visited: set[str] = set()
        self._modules: dict[str, dict[str, list[ast.AST]]] = {}

    def visit(self, module: str, name: str) -> None:
        full = f"{module}.{name}"
        if full in self.visited:
            return
        self.visited.add(full)
        for node in self._names(module).get(name, ()):
            match node:
                case ast.ImportFrom(module=str(origin), names=aliases):
                    if origin.split(".")[0] == "longshore":
                        for alias in aliases:
                            if (alias.asname or alias.name) == name:
                                self.visit(origin, alias.name)
                case ast.ClassDef():
                    self._class(module, name, node)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(module, name, node)
                case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                    # A call makes a value (a TypeVar, a logger); anything else may be an alias of a type.
                    if not isinstance(value, ast.Call):
                        self._expression(module, name, value)

    def _names(self, module: str) -> dict[str, list[ast.AST]]:
        """What each name of a module is: imports, definitions and assignments at its top, also under an `if`."""
        if module not in self._modules:
            path = self.sources.joinpath(*module.split("."))
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            names = self._modules[module] = {}
            for node in _statements(ast.parse(file.read_text(encoding="utf-8")).body):
                for name in _bound(node):
                    names.setdefault(name, []).append(node)
        return self._modules[module]

    def _class(self, module: str, owner: str, node: ast.ClassDef) -> None:
        for base in node.bases:
            self._expression(module, owner, base)
        for member in node.body:
            match member:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if not name.startswith("_"):
                    self._expression(module, f"{owner}.{name}", annotation)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    # The tests of the conformance suite are called by pytest, and by nobody else.
                    if not name.startswith(("_", "test_")) or name in {"__init__", "__call__"}:
                        self._function(module, f"{owner}.{name}", member)

    def _function(self, module: str, owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        given = node.args
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
            if argument is not None and argument.annotation is not None:
                self._expression(module, owner, argument.annotation)
        if node.returns is not None:
            self._expression(module, owner, node.returns)

    def _expression(self, module: str, owner: str, expression: ast.expr) -> None:
        full = f"{module}.{owner}"
        names = [node.id for node in ast.walk(expression) if isinstance(node, ast.Name)]
        if "Any" in names:
            if owner in UNCHECKED:
                self.excused.add(owner)
            elif full not in self.found:
                self.found.append(full)
        for name in names:
            self.visit(module, name)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])
        else:
            yield node


def _bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.ImportFrom(names=aliases):
            return [alias.asname or alias.name for alias in aliases]
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
