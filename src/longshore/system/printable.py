"""Text from outside (pages, jobs, other people's names) as a terminal may show it.

A terminal obeys control characters: they move the cursor, hide text, set the window's title and write to the clipboard.
Marks of writing direction reorder what a reader sees. The code that writes to a terminal or to a log removes them,
not each of its callers.
"""

from __future__ import annotations

_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Characters that move the cursor, colour the screen or change the direction of writing."""
_IN_A_LINE = dict.fromkeys(_CONTROLS) | {ord(sign): " " for sign in _BLANKS}
_IN_LINES = _IN_A_LINE | {ord("\n"): "\n", ord("\t"): "\t"}
_IN_JSON = {sign: f"\\u{sign:04x}" for sign in [*_CONTROLS, 0x2028, 0x2029] if sign >= 0x7F}


def printable(text: str) -> str:
    """Return text as one line without control characters."""
    return text if text.isascii() and text.isprintable() else text.translate(_IN_A_LINE)


def printable_lines(text: str) -> str:
    """Return text without control characters, except its line breaks and tabs."""
    return text if text.isascii() and text.isprintable() else text.translate(_IN_LINES)


def printable_json(text: str) -> str:
    """Return JSON with control characters written as `\\u009b`, which mean the same. JSON has no others in strings."""
    return text if text.isascii() else text.translate(_IN_JSON)


def indented(text: str, by: str) -> str:
    """Return text without control characters; every line but the first begins with `by`.

    So no line of it can be taken for a line of ours.
    """
    return printable_lines(text).replace("\n", f"\n{by}")
