"""Values as the pages show them. Everything is text: the templates escape it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec
from markupsafe import Markup, escape

from longshore.masking import mask_value
from longshore.system.printable import printable_lines
from longshore.top.failures import FailureKind
from longshore.ui.words import moment, one_line, shown_instant

_LONGEST_JSON = 20_000
_FEWEST_LETTERS = 4


def failure_title(kind: FailureKind) -> str:
    """Return a kind of failure in one line. A pattern of a few letters says nothing, so its example is shown."""
    tells = sum(letter.isalpha() for letter in kind.pattern) >= _FEWEST_LETTERS
    text = kind.pattern if tells else kind.message
    name = kind.exception or kind.error_type
    return f"{name}: {text}" if text and text != name else name


def share(part: float, whole: float) -> float:
    """Return a part in per cent, from 0 to 100, with two decimals."""
    return round(100 * part / whole, 2) if whole else 0.0


def percent(part: float, whole: float) -> str:
    """Return a share for people: 100 % only if nothing is missing, 0 % only if there is nothing."""
    if not whole or not part:
        return "0 %"
    value = 100 * part / whole
    if value < 1:
        return "< 1 %"
    return f"{math.floor(value)} %"


def number(value: float) -> str:
    """Return a number with separators."""
    return f"{value:,.0f}"


def host_rate(per_second: float | None) -> str:
    """Return requests per second of a host; per minute if they are few."""
    if per_second is None:
        return ""
    if per_second < 0.1:
        return f"{60 * per_second:.2g}/min"
    return f"{per_second:.2g}/s" if per_second < 10 else f"{per_second:,.0f}/s"


def time_tag(instant: float | None, form: str = "full") -> Markup:
    """Return a time element. Its text is in the time zone of the server; the page's script shows that of the reader."""
    if instant is None:
        return Markup("")
    text = moment(instant) if form == "full" else moment(instant)[11:]
    iso = datetime.fromtimestamp(shown_instant(instant), UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" data-form="{}" title="{}">{}</time>').format(iso, form, iso, text)


def web_link(url: str, text: str | None = None) -> Markup:
    """Return a link to a page of the web, or plain text if it is none: other schemes could run scripts."""
    shown = escape(one_line(url if text is None else text, 300))
    try:
        parts = urlsplit(url)
    except ValueError:
        return shown
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        return shown
    return Markup('<a href="{}" rel="noopener noreferrer nofollow" target="_blank">{}</a>').format(url, shown)


def json_text(value: object) -> str:
    """Return a value as JSON for people: indented, secrets masked, cut if it is very long."""
    shown = msgspec.json.format(msgspec.json.encode(mask_value(value)), indent=2).decode()
    if len(shown) > _LONGEST_JSON:
        shown = f"{shown[:_LONGEST_JSON]}\n… ({len(shown):,} characters; `longshore show --json` prints all of it)"
    return printable_lines(shown)
