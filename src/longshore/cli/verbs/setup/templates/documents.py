"""The template for documents: one job for each file of a folder."""

from __future__ import annotations

from longshore.cli.verbs.setup.templates.template import InitTemplate

_HANDLERS = '''"""The work on one document. A plain function runs in a process of its own, ended at the timeout."""

from pathlib import Path

from longshore import ValidationError, handler


@handler("document", timeout=120, retries=1)
def document(path: str, name: str, kit):
    text = Path(path).read_text(encoding="utf-8")
    if not text.strip():
        raise ValidationError(f"{name} is empty")
    first, *_ = text.strip().splitlines()
    return {"name": name, "title": first, "words": len(text.split())}
'''

_TEST = '''"""Handlers are tested without a queue or a worker."""

from longshore.testing import Completed, Failed, run_handler

from handlers import document


def test_a_document_is_read(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("Annual report\\n\\nAll is well.\\n")
    outcome = run_handler(document, {"path": str(file), "name": "a.txt"})
    assert outcome == Completed({"name": "a.txt", "title": "Annual report", "words": 5})


def test_an_empty_document_fails_and_is_not_tried_again(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("")
    outcome = run_handler(document, {"path": str(file), "name": "a.txt"})
    assert isinstance(outcome, Failed)
    assert not outcome.failure.retryable
'''

DOCUMENTS = InitTemplate(
    handlers=_HANDLERS,
    work="the work: one function for one document",
    test=_TEST,
    inputs={
        "documents/2025/first.txt": "Annual report\n\nAll is well.\n",
        "documents/2026/second.txt": "Annual report\n\nAll is still well.\n",
    },
    input_words="a document to work on",
    commands={
        "submit document --scan documents --run first": "one job for each file",
        "work handlers.py --run first --until-done": "do the work",
        "export first -o documents.csv": "a table of the results",
    },
    submit="submit document --scan documents --run first",
    about="`handlers.py` has the function that works on one document; the documents are in `documents`.",
    more="""The same `submit` again adds only files that are new. `--glob '*.xml'`, `--year 2026` and `--limit
10` choose among them. `longshore fleet handlers.py` works with several supervised processes.
Workers on other machines need the files under the same path, for example on a shared volume.""",
)
