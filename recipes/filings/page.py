"""A page that shows a filing with every fact highlighted in its text. It needs nothing else, and runs no script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from filings import config
from filings.edgar.submission import Submission
from filings.facts.fact import KINDS, Fact, Ground
from longshore.system.atomic_file import write_atomically

_STYLE = """
:root { color-scheme: light; font: 15px/1.5 system-ui, sans-serif; color: #1c2430; background: #f4f5f7 }
body { margin: 0; display: grid; grid-template-columns: minmax(0, 1fr) 25rem; min-height: 100vh }
header { grid-column: 1 / 3; background: #1c2a3d; color: #fff; padding: 1rem 1.5rem }
header h1 { margin: 0; font-size: 1.25rem; overflow-wrap: anywhere } header p { margin: .25rem 0 0; color: #ccd6e4 }
main { padding: 1rem 1.5rem; min-width: 0 }
pre { background: #fff; border: 1px solid #d5dae2; border-radius: 6px; padding: 1.25rem; margin: 0;
  font: 13px/1.6 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4;
  box-sizing: border-box }
aside { padding: 1rem 1.5rem 1rem 0; min-width: 0 }
aside ol, aside ul { margin: .5rem 0 1.5rem; padding: 0; list-style: none }
aside li { background: #fff; border: 1px solid #d5dae2; border-left: 5px solid; border-radius: 6px;
  padding: .5rem .75rem; margin-bottom: .5rem; overflow-wrap: anywhere }
aside h2 { font-size: 1rem; margin: 0 } a { color: inherit }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 .75rem; margin: .25rem 0 0; font-size: .9rem }
dt { color: #5a6675 } dd { margin: 0 }
mark { color: inherit; border-radius: 3px; padding: 1px 0; border-bottom: 2px solid }
mark:target { outline: 3px solid #1c2a3d }
small { color: #5a6675 }
.company { background-color: #d9e8fb; border-color: #2f6db5 }
.person { background-color: #ddf3de; border-color: #2c8438 }
.role { background-color: #fdeacb; border-color: #b87514 }
.relation { background-color: #eadff7; border-color: #7a4bb0 }
.event { background-color: #fbdcdc; border-color: #b83a3a } .problem { border-color: #5a6675 }
aside li.company, aside li.person, aside li.role, aside li.relation, aside li.event { background-color: #fff }
@media (max-width: 60rem) { body { display: block } aside { padding: 1rem 1.5rem } }
@media print { body { display: block } aside { break-before: page } }
"""
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def write_page(accession: str, read: Submission, facts: list[Fact]) -> Path | None:
    """Write the page of a filing into the folder of the settings, and return its path; None if none is wanted."""
    folder = config.pages_folder()
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    # Accession numbers come from outside.
    target = folder / f"{re.sub(r'[^0-9A-Za-z-]', '_', accession)[:60]}.html"
    write_atomically(target, page_of(accession, read, facts).encode())
    return target


def page_of(accession: str, read: Submission, facts: list[Fact]) -> str:
    """Return the page. All that comes from the filing is escaped."""
    company = read.company
    name = "" if company is None or company.name is None else company.name.text
    form = "" if read.form is None else read.form.text
    problems = "".join(
        f'<li class="problem"><b>{_shown(each.code)}</b><br>{_shown(each.detail)}</li>' for each in read.problems
    )
    unread = f"<h2>Not read ({len(read.problems)})</h2><ul>{problems}</ul>" if problems else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_shown(form)} {_shown(name)}</title><style>{_STYLE}</style></head><body>"
        f"<header><h1>{_shown(name) or 'No company'} · {_shown(form) or 'no form'}</h1>"
        f"<p>{_shown(accession)} · {len(facts)} facts</p></header>"
        f"<main><pre>{''.join(_marked(read.text, facts))}</pre></main>"
        f"<aside><h2>Facts ({len(facts)})</h2><ol>{''.join(_listed(facts))}</ol>{unread}</aside></body></html>\n"
    )


def _marked(text: str, facts: list[Fact]) -> Iterator[str]:
    """Yield the text, each piece that belongs to the same facts in a mark of its own."""
    bounds = sorted({0, len(text), *(place for _, start, end in _spans(facts) for place in (start, end))})
    opening: dict[int, list[int]] = {}
    closing: dict[int, list[int]] = {}
    for number, start, end in _spans(facts):
        opening.setdefault(start, []).append(number)
        closing.setdefault(end, []).append(number)
    open_facts: list[int] = []
    first = set[int]()
    for begin, end in zip(bounds, [*bounds[1:], len(text)], strict=True):
        for number in closing.get(begin, ()):
            open_facts.remove(number)
        open_facts += opening.get(begin, ())
        piece = _shown(text[begin:end])
        if not piece or not open_facts:
            yield piece
            continue
        kind = min((facts[each].kind for each in open_facts), key=KINDS.index)
        title = "; ".join(f"{each + 1} {facts[each].kind}" for each in sorted(set(open_facts)))
        new = [each for each in sorted(set(open_facts)) if each not in first]
        first.update(new)
        anchors = "".join(f'<a id="f{each + 1}"></a>' for each in new)
        yield f'{anchors}<mark class="{kind}" title="{title}">{piece}</mark>'


def _spans(facts: list[Fact]) -> Iterator[tuple[int, int, int]]:
    for number, fact in enumerate(facts):
        for ground in fact.grounds.values():
            yield number, ground.start, ground.end


def _listed(facts: list[Fact]) -> Iterator[str]:
    for number, fact in enumerate(facts, 1):
        rows = []
        for name, value in fact.values.items():
            if value is None:
                continue
            ground = fact.grounds.get(name)
            how = "" if ground is None or ground.match == "exact" else f" <small>{ground.match}{_score(ground)}</small>"
            rows.append(f"<dt>{_shown(name.replace('_', ' '))}</dt><dd>{_shown(str(value))}{how}</dd>")
        by = "" if fact.found_by == "rules" else " <small>by the model</small>"
        yield f'<li class="{fact.kind}"><a href="#f{number}">{number} {fact.kind}</a>{by}<dl>{"".join(rows)}</dl></li>'


def _shown(text: str) -> str:
    """Escape text of a filing. Invisible characters, and those that turn text around, become replacement characters."""
    return _INVISIBLE.sub("\ufffd", escape(text))


def _score(ground: Ground) -> str:
    return f" {ground.score:g}" if ground.match == "fuzzy" else ""
