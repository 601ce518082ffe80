"""Where a queue is: a URL, or a plain path or git remote that stands for one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from longshore.errors import SettingsError
from longshore.url import mask_url

# Two letters at least: one is a drive.
_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):", re.IGNORECASE)
_REMOTE = re.compile(r"ssh://.|(https?|file)://.*\.git/?\Z", re.IGNORECASE)
_SHORT_REMOTE = re.compile(r"(?P<host>[^/\\:@\s]+@[^/\\:@\s]+):/*(?P<path>[^/\s]\S*)")
# A lone word is none, for it may be anything else that was forgotten or mistyped; nor is one with a colon in front.
_PATH = re.compile(r"[a-z]:[/\\]|[^:/\\]*[/\\]|(\.\.?|~|[^:/\\]+\.(db|sqlite3?|git))\Z", re.IGNORECASE)
# A URL whose colon was forgotten. As a path, its password would become the name of a folder.
_WITHOUT_COLON = re.compile(r"(postgres(ql)?|sqlite|dir|memory|(git\+)?(https?|ssh|file))//", re.IGNORECASE)
_ON_SERVERS = {"postgresql", "postgres", "git+https", "git+http", "git+ssh"}
_FILES = re.compile(r"(?P<head>dir://|sqlite:///)(?P<path>.+)", re.IGNORECASE | re.DOTALL)


def full_url(queue: str) -> str:
    """The URL a queue goes by: plain paths and plain git remotes are spelled out, all else comes back as it is.

    What ends in `.git` is a repository, what ends in `.db`, `.sqlite` or `.sqlite3` and is no folder is a file of
    SQLite, and any other path is a folder.
    """
    if _REMOTE.match(queue):
        return f"git+{queue}"
    if short := _SHORT_REMOTE.fullmatch(queue):
        return f"git+ssh://{short['host']}/{short['path']}"
    return _url_of_path(queue) if _PATH.match(queue) and not _WITHOUT_COLON.match(queue) else queue


def scheme_of(url: str) -> str:
    """The scheme that picks the medium; empty where there is none."""
    found = _SCHEME.match(url)
    return found["scheme"].lower() if found else ""


def same_queue(one: str, another: str) -> bool:
    """Whether two spellings certainly name the same queue, seen from the current folder."""
    return _from_here(one) == _from_here(another)


def check_spelling(url: str) -> None:
    """`SettingsError` for the URL of a server that would be read in another way than it was meant.

    A password that nobody encoded is split by its `/`, `?` or `#`. What is left of it would be taken for a host or the
    name of a database, and be sent and printed as such.
    """
    scheme = scheme_of(url)
    if scheme not in _ON_SERVERS:
        return
    if not url.startswith("://", len(scheme)):
        raise SettingsError(f"'{mask_url(url)}' lacks a slash. Write {scheme}:// and then the server.")
    try:
        parts = urlsplit(url)
        names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        torn = any("@" in part for part in (parts.path, parts.fragment, *names))
    except ValueError:
        torn = True  # its message would quote the password
    if torn:
        raise SettingsError(
            f"'{mask_url(url)}' cannot be read as a URL. In a user name, a password or a path, write %2F for /, %3F "
            "for ?, %23 for # and %40 for @; any other unusual sign is encoded likewise."
        )


def _from_here(queue: str) -> str:
    url = full_url(queue)
    if files := _FILES.fullmatch(url):
        return files["head"].lower() + os.path.abspath(os.path.expanduser(files["path"]))  # noqa: PTH100, PTH111
    return url.rstrip("/")


def _url_of_path(text: str) -> str:
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"'{text}' names no folder of anybody here. Write the whole path.") from error
    match path.suffix.lower():
        case ".git":
            whole = path.resolve().as_posix()
            return f"git+file://{'' if whole.startswith('/') else '/'}{quote(whole, safe='/:')}"
        case ".db" | ".sqlite" | ".sqlite3" if not path.is_dir():
            return f"sqlite:///{path}"
    return f"dir://{path}"
