"""Whether the libraries of the server are installed. It imports none of them."""

from __future__ import annotations

from importlib.util import find_spec

from longshore.errors import SettingsError


def check_installed() -> None:
    """Raise `SettingsError` if a library of the server is missing."""
    missing = [name for name in ("litestar", "uvicorn", "jinja2", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"The server needs {', '.join(missing)}. Fix: pip install '.[serve]' where Longshore was cloned"
        )
