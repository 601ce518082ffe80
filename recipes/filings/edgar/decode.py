"""Bytes as text. The encodings that filings declare cannot be trusted."""

from __future__ import annotations

import codecs

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decoded(body: bytes) -> tuple[str, bool]:
    """Return the text, and whether every byte had a meaning.

    Text that is valid UTF-8 hardly ever is anything else; the rest is windows-1252. NUL has no place in a text.
    """
    encoding = next((name for mark, name in _MARKS if body.startswith(mark)), "utf-8")
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError:
        # Five bytes mean nothing in windows-1252.
        text = body.decode("cp1252", errors="replace")
    clean = text.replace("\0", "\ufffd").replace("\r\n", "\n").replace("\r", "\n")
    return clean, "\ufffd" not in clean
