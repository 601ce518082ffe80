"""The handler file: what is collected from it, and what each fault in it says."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from longshore.errors import HandlerFileError
from longshore.handlers.load import load_handlers
from longshore.testing import Completed, run_handler


@pytest.fixture(autouse=True)
def _imports_are_undone() -> Iterator[None]:
    path, modules = list(sys.path), dict(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - set(modules):
        if not name.startswith("longshore."):
            del sys.modules[name]


def written(folder: Path, text: str, name: str = "pages_for_test.py") -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(HandlerFileError) as caught:
        load_handlers(path)
    return str(caught.value)


def test_the_smallest_file_works_as_it_is(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        from longshore import handler

        @handler("page", timeout=30, retries=3)
        async def page(job, kit):
            return {"length": len(job.payload["url"])}
        """,
    )
    handlers = load_handlers(path)
    assert list(handlers) == ["page"]
    assert run_handler(handlers["page"], {"url": "12345"}) == Completed({"length": 5})


def test_classes_are_collected_by_their_kinds(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        from longshore import Worker, handler

        class Filings(Worker):
            kinds = ("filing", "notice")
            timeout = 5
            retries = 1

            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.seen = 0

            def process_task(self, task):
                self.seen += 1
                return [task.type, task.params["n"], self.seen]

        class Slow(Filings):
            kinds = "slow"
            async def process_task(self, task):
                return task.id

        @handler("page")
        def page(job): ...
        """,
    )
    handlers = load_handlers(path)
    assert set(handlers) == {"filing", "notice", "slow", "page"}
    assert handlers["filing"].retries == 1
    assert handlers["filing"].timeout.total_seconds() == 5
    assert handlers["slow"].is_async
    assert not handlers["filing"].is_async
    assert run_handler(handlers["filing"], {"n": 7}) == Completed(["filing", 7, 1])
    assert run_handler(handlers["notice"], {"n": 8}) == Completed(["notice", 8, 2]), "one instance for all kinds"


def test_a_file_may_import_its_neighbours_and_their_handlers(tmp_path: Path) -> None:
    written(tmp_path, "from longshore import handler\n@handler('other')\ndef other(job): ...", "neighbour_of_test.py")
    path = written(tmp_path, "from neighbour_of_test import other")
    assert list(load_handlers(path)) == ["other"]


def test_what_a_file_defines_can_be_found_again_by_name(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        import dataclasses
        from longshore import handler

        @dataclasses.dataclass
        class Row:
            n: int

        @handler("row")
        def row(job):
            return Row(1)
        """,
    )
    row = load_handlers(path)["row"].function(None)
    assert type(row).__module__ == "pages_for_test"
    assert pickle.loads(pickle.dumps(row)) == row


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    text = "from longshore import handler\n@handler('{}')\ndef page(job): ..."
    path = written(tmp_path, text.format("one"))
    assert list(load_handlers(path)) == ["one"]
    path.write_text(text.format("two"))
    assert list(load_handlers(path)) == ["two"]


@pytest.mark.parametrize("name", ["site.py", "pytest.py"])
def test_a_file_with_the_name_of_another_module_leaves_that_one_alone(tmp_path: Path, name: str) -> None:
    module = sys.modules[Path(name).stem]
    path = written(tmp_path, "from longshore import handler\n@handler('page')\ndef page(job): ...", name)
    assert list(load_handlers(path)) == ["page"]
    assert sys.modules[Path(name).stem] is module


def test_a_standard_module_of_the_same_name_can_still_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    path = written(tmp_path, "from longshore import handler\n@handler('page')\ndef page(job): ...", "wave.py")
    load_handlers(path)
    wave = importlib.import_module("wave")
    assert wave.__file__ is not None
    assert not Path(wave.__file__).is_relative_to(tmp_path)


def test_a_missing_file(tmp_path: Path) -> None:
    assert f"There is no handler file {tmp_path / 'no.py'}" in refusal(tmp_path / "no.py")


def test_a_file_that_is_not_python(tmp_path: Path) -> None:
    assert "ends in .py" in refusal(written(tmp_path, "x", "urls.txt"))
    (tmp_path / "folder.py").mkdir()
    assert "is not a Python file" in refusal(tmp_path / "folder.py")


def test_a_syntax_error_is_shown_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "x = 1\ndef page(job:\n    return 1\n")
    message = refusal(path)
    assert f"{path}:2: " in message
    assert "def page(job:" in message


def test_bytes_that_are_no_source(tmp_path: Path) -> None:
    path = tmp_path / "binary_for_test.py"
    path.write_bytes(b"x = 1\0")
    assert str(path) in refusal(path)


def test_an_error_on_import_is_shown_with_its_place_and_last_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "import json\n\njson.loads('{')\n")
    message = refusal(path)
    assert message.startswith(f"{path}:3: the handler file cannot be imported")
    assert "JSONDecodeError" in message
    assert "load.py" not in message, "our own lines are of no use to the reader"
    assert "pages_for_test" not in sys.modules


def test_a_file_that_exits_is_refused(tmp_path: Path) -> None:
    assert "SystemExit" in refusal(written(tmp_path, "import sys\nsys.exit(0)\n"))


def test_a_file_without_handlers_shows_the_smallest_one(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "x = 1"))
    assert "no handlers" in message
    assert '@handler("page")' in message


def test_a_class_without_kinds_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "from longshore import Worker\nclass Filings(Worker): ...")
    assert "class Filings" in refusal(path)


def test_the_same_kind_twice_is_refused(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        from longshore import handler

        @handler("page")
        def one(job): ...

        @handler("page")
        def two(job): ...
        """,
    )
    message = refusal(path)
    assert "'page' has two handlers" in message
    assert "one and two" in message


def test_one_handler_under_two_names_is_no_fault(tmp_path: Path) -> None:
    path = written(tmp_path, "from longshore import handler\n@handler('page')\ndef page(job): ...\nsame = page")
    assert list(load_handlers(path)) == ["page"]


def test_a_declaration_that_makes_no_sense_is_named_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "from longshore import handler\n\n@handler('page', timeout=-1)\ndef page(job): ...")
    assert refusal(path).startswith(f"{path}:3: The handler of 'page' has timeout=")


def test_an_annotation_that_cannot_be_read_is_found_before_any_job(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        from __future__ import annotations
        from longshore import handler

        @handler("page")
        def page(url: Missing): ...
        """,
    )
    assert "Missing" in refusal(path)


def test_a_model_may_stand_below_its_handler(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        from __future__ import annotations
        import pydantic
        from longshore import handler

        @handler("page")
        def page(params: Later):
            return params.n

        class Later(pydantic.BaseModel):
            n: int
        """,
    )
    assert run_handler(load_handlers(path)["page"], {"n": 2}) == Completed(2)
