"""The configuration of a `Worker` class: given by its user, completed by the settings."""

from __future__ import annotations

from collections.abc import Mapping

from longshore.errors import SettingsError
from longshore.settings import DEFAULT_QUEUE, TABLE, Settings, resolve
from longshore.stored import Json


class WorkerOptions(dict[str, Json]):
    """The configuration of a `Worker` class; `config["poll_interval"]` and `config.poll_interval` are the same."""

    poll_interval: float
    """Seconds to wait when there is no work."""
    max_runs: int
    """Tasks until the worker stops; 0 for no limit."""
    lease_seconds: float
    debug: bool

    def __init__(self, values: Mapping[str, Json]) -> None:
        super().__init__(values)
        # Every entry, also one that is added later, is an attribute.
        self.__dict__ = self


def resolved(api_url: str | None, worker_id: str | None, given: Mapping[str, Json]) -> Settings:
    """Return the settings of a worker: the given values over the environment, `.env`, `longshore.toml` and defaults.

    Raises `SettingsError`.
    """
    return resolve(
        {
            # Under `longshore work`, a child process does not know the queue.
            "queue": DEFAULT_QUEUE if api_url == "" else api_url,
            "worker_id": worker_id,
            "poll_interval": _number(given, "poll_interval"),
            "max_work": _number(given, "max_runs", setting="max_work"),
            "lease_seconds": _number(given, "lease_seconds"),
            "debug": given.get("debug"),
            "api_key": given.get("api_key") or None,
        }
    )


def completed(given: Mapping[str, Json], settings: Settings) -> WorkerOptions:
    """Return the configuration with an entry for every setting of a worker."""
    known = {
        "poll_interval": settings.poll_interval,
        "max_runs": settings.max_work,
        "lease_seconds": settings.lease_seconds,
        "debug": settings.debug,
    }
    return WorkerOptions(known | dict(given))


def _number(given: Mapping[str, Json], name: str, *, setting: str = "") -> float | None:
    """Return a number of the configuration; None if it is not given. Raise `SettingsError` if it is out of bounds."""
    value, bounds = given.get(name), TABLE[setting or name]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not bounds.holds(value):
        raise SettingsError(f"config['{name}'] is {value!r}. Give it {bounds.allowed}.")
    return value
