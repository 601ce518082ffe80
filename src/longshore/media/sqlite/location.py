"""The file that a queue URL names."""

from __future__ import annotations

from pathlib import Path

from longshore.errors import SettingsError
from longshore.url import mask_url

_PREFIX = "sqlite:///"


def path_of(url: str) -> Path:
    """Return the file of `sqlite:///relative/path.db` or `sqlite:////absolute/path.db`; `~` is the home folder.

    Percent escapes such as `%20` are not decoded: the rest of the URL is a path, not a web address.
    """
    path = url[len(_PREFIX) :] if url.lower().startswith(_PREFIX) else ""
    if not path:
        raise SettingsError(
            f"'{mask_url(url)}' names no file. Write sqlite:/// and the path: sqlite:///jobs.db for a relative one, "
            "sqlite:////var/lib/jobs.db for an absolute one."
        )
    if path == ":memory:":
        raise SettingsError(f"'{mask_url(url)}' cannot be shared by workers. Name a file, or use memory:// in tests.")
    if "?" in path or "#" in path:
        raise SettingsError(f"'{mask_url(url)}' has options, and a sqlite queue takes none. Write the path alone.")
    return Path(path).expanduser()
