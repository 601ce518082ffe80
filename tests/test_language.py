"""The prose of the code and the docs is plain English: patterns that stop a reader are counted, and may only fall.

Each pattern is a habit of the dialect in which this code was once written; CONTRIBUTING.md says what to write instead.
Lower a ceiling when its count has fallen. At first there were 1,992 places in all.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "longshore"
PATTERNS = {
    "a sentence that begins with What or Who and asks nothing": (
        r"(?:^|[.:;] |\A)(?:What|Who) (?!\w+ do\b)[a-z`][^?]*?(?:[.:]|\Z)"
    ),
    "where, in the place of if": (
        r"\b[Ww]here (?:there|it|its|that|this|they|nothing|nobody|none|no|one|some|somebody|another|others|all|both)\b"
    ),
    "whoever, whichever": r"\b[Ww]h(?:oever|ichever|omever)\b",
    "nobody, somebody, anybody, everybody": r"\b(?:[Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body\b",
    "so many, so long, so often": r"\b[Ss]o (?:many|much|few|long|often|far)\b(?! as\b)",
    "anew, thereof, of late, in vain, besides": r"\b(?:anew|of late|in vain|hardly any|as yet|for all that)\b",
}
CEILINGS = {
    "docs": 3,
}
"""The most places in each package, and in the pages of the docs; a package that is not listed has none."""


def prose_of(path: Path) -> Iterator[str]:
    """Yield the comments and strings of a Python file, or the paragraphs of a page. A string of one word is a value."""
    if path.suffix == ".md":
        yield from path.read_text().split("\n\n")
        return
    text = path.read_text()
    if path.suffix == ".sql":
        yield from re.findall(r"--(.*)", text)
        return
    wanted = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in wanted and " " in token.string:
            yield token.string.strip("\"'# \n")


def count(paths: Iterable[Path]) -> Counter[str]:
    """Count each pattern in these files."""
    found: Counter[str] = Counter()
    for path in paths:
        for piece in prose_of(path):
            for name, pattern in PATTERNS.items():
                found[name] += len(re.findall(pattern, piece, re.MULTILINE))
    return found


def packages() -> dict[str, list[Path]]:
    """Return the files of each package, of the modules beside them, and of the docs."""
    found: dict[str, list[Path]] = {"docs": [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    for path in SOURCE.rglob("*"):
        if path.suffix in {".py", ".sql"}:
            parts = path.relative_to(SOURCE).parts
            found.setdefault(parts[0] if len(parts) > 1 else "core", []).append(path)
    return found


def test_the_patterns_that_stop_a_reader_only_become_fewer() -> None:
    counts = {package: count(paths) for package, paths in packages().items()}
    more = {name: found for name, found in counts.items() if found.total() > CEILINGS.get(name, 0)}
    assert more == {}


def test_every_pattern_finds_the_dialect_and_leaves_plain_english_alone() -> None:
    dialect = (
        "What is set aside stays. Where there is none, whoever asks and nobody else waits so long, and begins anew."
    )
    plain = (
        "Rejected files stay. If there is no file, the caller waits `timeout` seconds and starts again. What is a job?"
    )
    assert all(re.search(pattern, dialect) for pattern in PATTERNS.values())
    assert not any(re.search(pattern, plain) for pattern in PATTERNS.values())
