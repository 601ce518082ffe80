"""Text from outside gives a terminal no orders, and forges no line."""

from __future__ import annotations

import io
import json

import pytest
import structlog
from rich.console import Console

from longshore.fleet.checks import CheckVerdict, Finding
from longshore.observe import logs
from longshore.system.printable import indented, printable, printable_json, printable_lines
from longshore.ui import output
from longshore.ui.findings import show_findings
from longshore.ui.live_view import LivePicture, PipedLines
from longshore.ui.local.run_summary import tell

ORDERS = "\x1b]0;title\x07\x1b[2J\x1b]52;c;ZXZpbA==\x07\x9b31m\u202egnp.exe\x08\x7f\u2066\u061c"
FORGED = "12:00:00 Completed work job_id=999"
TITLE = f"a page's title {ORDERS}\r\n{FORGED}\u2028{FORGED}\x85{FORGED}"


def has_orders(text: str) -> bool:
    return any(sign in text for sign in "\x1b\x07\x9b\u202e\x08\x7f\u2066\u061c\r\u2028\x85")


def test_no_control_character_is_printable() -> None:
    assert not has_orders(printable(TITLE))
    assert "\n" not in printable(TITLE)
    assert not has_orders(printable_lines(TITLE))
    assert printable_lines("a\n\tb") == "a\n\tb"


def test_every_further_line_of_an_indented_text_is_indented() -> None:
    first, *others = indented(TITLE, "    ").splitlines()
    assert first.startswith("a page's title")
    assert others and all(line.startswith("    ") for line in others)


def test_json_says_the_same_without_control_characters() -> None:
    encoded = json.dumps({"title": TITLE}, ensure_ascii=False)
    assert not has_orders(printable_json(encoded))
    assert json.loads(printable_json(encoded)) == {"title": TITLE}


def test_what_commands_write_holds_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output.write(TITLE)
    output.note(TITLE)
    output.write_json({"title": TITLE})
    written = capsys.readouterr()
    assert not has_orders(written.out + written.err)
    assert json.loads(written.out.partition("{")[1] + written.out.partition("{")[2]) == {"title": TITLE}


def test_what_is_said_on_a_terminal_holds_no_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    to = Console(file=stream, force_terminal=True, color_system=None)
    tell(to, [TITLE])
    PipedLines(to).say(TITLE)
    LivePicture(to).say(TITLE)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")  # without orders of our own
    finding = Finding(verdict=CheckVerdict.FAIL, name="queue", what=TITLE, fix=TITLE)
    show_findings([finding])
    written = stream.getvalue() + capsys.readouterr().out
    assert written.count("a page's title") == 5
    assert not has_orders(written)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_page_forges_no_log_line(form: logs.Format) -> None:
    stream = io.StringIO()
    logs.configure(format=form, stream=stream)
    log = structlog.get_logger()
    log.warning(f"Failed work: {TITLE}", url=TITLE, **{"a\nkey": 1})
    log.error(TITLE, exc_info=ValueError(TITLE))
    lines = stream.getvalue().split("\n")
    assert not has_orders(stream.getvalue())
    assert not any(line.startswith(FORGED) for line in lines)
    entries = [line for line in lines if line and not line.startswith("    ")]
    assert len(entries) == 2
