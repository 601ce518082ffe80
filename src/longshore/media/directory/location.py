"""The folder that a queue URL names."""

from __future__ import annotations

from pathlib import Path

from longshore.errors import SettingsError
from longshore.url import mask_url

_PREFIX = "dir://"


def path_of(url: str) -> Path:
    """Return the folder of `dir:///absolute/path`, `dir://relative/path` or a plain path; `~` is the home folder.

    The path is used as written: `%20` and other URL escapes are not decoded, because it is a path, not a web address.
    """
    path = url[len(_PREFIX) :] if url.lower().startswith(_PREFIX) else url
    if not path or "://" in path or path.lower().startswith("dir:"):
        raise SettingsError(
            f"'{mask_url(url)}' names no folder. Write dir:// and the path: dir://jobs for a relative one, "
            "dir:///var/lib/jobs for an absolute one."
        )
    if "\0" in path:
        raise SettingsError("The path of a queue contains a zero byte. Name another folder.")
    return Path(path).expanduser().absolute()
