"""Which folder a queue URL means."""

from __future__ import annotations

from pathlib import Path

from longshore.errors import SettingsError
from longshore.url import mask_url

_PREFIX = "dir://"


def path_of(url: str) -> Path:
    """The folder of `dir:///absolute/path` or `dir://relative/path`; `~` is the home folder. A plain path is one too.

    The path is taken as it is written, without decoding `%20` and the like: it is a path, not a web address.
    """
    path = url[len(_PREFIX) :] if url.lower().startswith(_PREFIX) else url
    if not path or "://" in path or path.lower().startswith("dir:"):
        raise SettingsError(
            f"'{mask_url(url)}' names no folder. Write dir:// and the path: dir://jobs for a relative one, "
            "dir:///var/lib/jobs for an absolute one."
        )
    if "\0" in path:
        raise SettingsError("The path of a queue cannot hold a zero byte. Name another folder.")
    return Path(path).expanduser().absolute()
