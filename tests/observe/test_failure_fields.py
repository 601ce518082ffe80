"""A traceback for people: their own code, and of libraries only how many frames (item 12)."""

from __future__ import annotations

import json
import sysconfig
import traceback
from pathlib import Path

from longshore.observe.failure_fields import own_frames_first

LIBRARY = f"{sysconfig.get_path('purelib')}/aiohttp/client.py"
OURS = f"{Path(own_frames_first.__code__.co_filename).parents[1]}/worker/loop/executor.py"


def frame(file: str, line: int, function: str, code: str) -> str:
    return f'  File "{file}", line {line}, in {function}\n    {code}\n    ^^^^^\n'


def test_the_users_frames_come_first_and_libraries_are_counted() -> None:
    text = (
        "Traceback (most recent call last):\n"
        + frame(OURS, 136, "_attempt", "value = await handler.invoke(job, kit)")
        + frame("/home/anna/shop.py", 12, "page", "return title(response)")
        + frame("/home/anna/shop.py", 20, "title", "response.json()")
        + frame(LIBRARY, 1, "json", "loads()")
        + frame("/elsewhere/venv/lib/python3.12/site-packages/orjson/x.py", 2, "loads", "raise")
        + "ValueError: no JSON\n"
    )
    assert own_frames_first(text).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/home/anna/shop.py", line 12, in page',
        "    return title(response)",
        "    ^^^^^",
        '  File "/home/anna/shop.py", line 20, in title',
        "    response.json()",
        "    ^^^^^",
        "  … 2 frames of libraries",
        "ValueError: no JSON",
    ]


def test_every_part_of_a_chain_is_kept() -> None:
    try:
        try:
            json.loads("{")
        except ValueError as error:
            raise KeyError("title") from error
    except KeyError as error:
        shown = own_frames_first("".join(traceback.format_exception(error)))
    assert "JSONDecodeError" in shown
    assert "direct cause of the following" in shown
    assert shown.endswith("KeyError: 'title'")
    assert shown.count("test_failure_fields.py") == 2
    assert "json/decoder.py" not in shown


def test_a_traceback_without_the_users_code_is_shown_whole() -> None:
    text = "Traceback (most recent call last):\n" + frame(LIBRARY, 1, "f", "g()") + "OSError: gone"
    assert own_frames_first(text) == text
    assert own_frames_first("no traceback at all") == "no traceback at all"
