"""The environment of child processes, which a handler and the libraries it imports can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

_NEEDED = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "VIRTUAL_ENV",
    "PYTHON*",
    "LD_LIBRARY_PATH",
    "DYLD_*",
    "DISPLAY",
    "LONGSHORE_PROFILE",
    "LONGSHORE_DATABASE",
    "XDG_CACHE_HOME",
    "SSL_CERT_*",
    "SE_*",
    "PLAYWRIGHT_*",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
]
"""Variables that programs need to run. None of them holds a secret."""


def child_environment(environment: Mapping[str, str], passed: Sequence[str] | None) -> dict[str, str]:
    """Return the variables that a child process gets: all, or those it needs and those that `passed` names.

    A name may be a shell pattern: `SHOP_*`.
    """
    if passed is None:
        return dict(environment)
    allowed = (*_NEEDED, *passed)
    return {
        name: value for name, value in environment.items() if any(fnmatchcase(name, pattern) for pattern in allowed)
    }
