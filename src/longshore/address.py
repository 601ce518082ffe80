"""The address of a queue: a URL, or a plain path or git remote that abbreviates one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from longshore.errors import SettingsError
from longshore.url import mask_url

# Two letters at least: a single one is a drive.
_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):", re.IGNORECASE)
_REMOTE = re.compile(r"ssh://.|(https?|file)://.*\.git/?\Z", re.IGNORECASE)
_SHORT_REMOTE = re.compile(r"(?P<host>[^/\\:@\s]+@[^/\\:@\s]+):/*(?P<path>[^/\s]\S*)")
# A single word is not a path, because it may be any other misspelled argument; nor is a text that begins with a colon.
_PATH = re.compile(r"[a-z]:[/\\]|[^:/\\]*[/\\]|(\.\.?|~|[^:/\\]+\.(db|sqlite3?|git))\Z", re.IGNORECASE)
# A URL without its colon. Read as a path, its password would become the name of a folder.
_WITHOUT_COLON = re.compile(r"(postgres(ql)?|sqlite|dir|memory|(git\+)?(https?|ssh|file))//", re.IGNORECASE)
_ON_SERVERS = {"postgresql", "postgres", "git+https", "git+http", "git+ssh"}
_FILES = re.compile(r"(?P<head>dir://|sqlite:///)(?P<path>.+)", re.IGNORECASE | re.DOTALL)


def full_url(queue: str) -> str:
    """Return the full URL of a queue: plain paths and plain git remotes are expanded, all other texts are unchanged.

    A path that ends in `.git` is a repository; one that ends in `.db`, `.sqlite` or `.sqlite3` and is not a folder is
    an SQLite file; any other path is a folder.
    """
    if _REMOTE.match(queue):
        return f"git+{queue}"
    if short := _SHORT_REMOTE.fullmatch(queue):
        return f"git+ssh://{short['host']}/{short['path']}"
    return _url_of_path(queue) if _PATH.match(queue) and not _WITHOUT_COLON.match(queue) else queue


def scheme_of(url: str) -> str:
    """Return the scheme, which selects the medium; empty if there is none."""
    found = _SCHEME.match(url)
    return found["scheme"].lower() if found else ""


def same_queue(one: str, another: str) -> bool:
    """Return whether two spellings certainly name the same queue, relative to the current folder."""
    return _absolute(one) == _absolute(another)


def check_spelling(url: str) -> None:
    """Raise `SettingsError` for the URL of a server that would be misread.

    A `/`, `?` or `#` in a password that was not encoded ends the password. The rest of it would be taken for a host or
    the name of a database, and be sent and printed.
    """
    scheme = scheme_of(url)
    if scheme not in _ON_SERVERS:
        return
    if not url.startswith("://", len(scheme)):
        raise SettingsError(f"'{mask_url(url)}' lacks a slash. Write {scheme}:// and then the server.")
    try:
        parts = urlsplit(url)
        names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        misread = any("@" in part for part in (parts.path, parts.fragment, *names))
    except ValueError:
        misread = True  # its message would quote the password
    if misread:
        raise SettingsError(
            f"'{mask_url(url)}' cannot be read as a URL. In a user name, a password or a path, write %2F for /, %3F "
            "for ?, %23 for # and %40 for @; encode other special characters in the same way."
        )


def _absolute(queue: str) -> str:
    url = full_url(queue)
    if files := _FILES.fullmatch(url):
        return files["head"].lower() + os.path.abspath(os.path.expanduser(files["path"]))  # noqa: PTH100, PTH111
    return url.rstrip("/")


def _url_of_path(text: str) -> str:
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"'{text}' names the home folder of an unknown user. Write the full path.") from error
    match path.suffix.lower():
        case ".git":
            full = path.resolve().as_posix()
            return f"git+file://{'' if full.startswith('/') else '/'}{quote(full, safe='/:')}"
        case ".db" | ".sqlite" | ".sqlite3" if not path.is_dir():
            return f"sqlite:///{path}"
    return f"dir://{path}"
