"""The table: every setting with its type, names, default and meaning."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

from longshore.settings.values import SecondsRange, show

DEFAULT_QUEUE = "sqlite:///.longshore/queue.db"
PREFIX = "LONGSHORE_"
RENAMED = {"max_failures": "max_empty_polls"}
"""Old names of settings that files of users may hold, and what each is called now."""

# Far beyond any use, and within what every clock, timer and medium can live with.
_YEARS_IN_HOURS = 10 * 365 * 24
_YEARS = _YEARS_IN_HOURS * 3600
_LONGEST_LEASE = 30 * 24 * 3600
_MANY = 10**12


@dataclass(frozen=True)
class ValueSource:
    """Where a value came from: `command line`, `environment`, `.env`, `longshore.toml`, `profile` or `default`."""

    level: str
    name: str = ""
    """What it is called there: a flag, a variable, a key; for a profile, the name of the profile."""

    def __str__(self) -> str:
        if self.level == "command line":
            return self.name
        return f"{self.name} ({self.level})" if self.name else self.level


DEFAULT = ValueSource("default")


def _setting(
    default: Any,
    meaning: str,
    *aliases: str,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    live: bool = False,
) -> Any:
    return field(
        default=default,
        metadata={
            "meaning": meaning,
            "aliases": aliases,
            "at_least": at_least,
            "at_most": at_most,
            "choices": choices,
            "live": live,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings with their values, and in `sources` where each came from."""

    profile: str = _setting(
        "production",
        "Settings that go together under one name: development, testing, production, or one of your own.",
        "ENVIRONMENT",
    )
    queue: str = _setting(
        DEFAULT_QUEUE,
        "The URL of the queue. Its scheme picks the medium.",
        "GITHUB_REPO_URL",
        "QUEUE_DIR",
        "TASKMANAGER_API_URL",
    )
    lease_seconds: float = _setting(
        300.0,
        "How long a job is held by a worker that shows no sign of life, before it comes back.",
        at_least=1,
        at_most=_LONGEST_LEASE,
    )
    worker_id: str | None = _setting(
        None,
        "The worker's label in logs and statistics. Left out, one is made of host, process and chance.",
        "WORKER_ID",
    )
    concurrency: int = _setting(8, "How many jobs a worker runs at once.", at_least=1, at_most=10_000, live=True)
    min_delay_seconds: float = _setting(
        0.0,
        "The shortest pause between two jobs of a worker. Its length is drawn anew each time. 0 is none.",
        "MIN_DELAY_SECONDS",
        at_least=0,
        at_most=_YEARS,
        live=True,
    )
    max_delay_seconds: float = _setting(
        0.0,
        "The longest pause between two jobs of a worker. Left out, every pause is the shortest.",
        "MAX_DELAY_SECONDS",
        at_least=0,
        at_most=_YEARS,
        live=True,
    )
    batch_size: int = _setting(100, "How many jobs a worker claims at a time, at most.", at_least=1, at_most=100_000)
    poll_interval: float = _setting(
        10.0,
        "The longest wait, in seconds, between two looks for work.",
        "POLL_INTERVAL",
        at_least=0.01,
        at_most=_YEARS,
    )
    max_work: int = _setting(
        0,
        "A worker stops after this many jobs. 0 is no limit.",
        "MAX_WORK_ORDERS",
        "MAX_RUNS",
        at_least=0,
        at_most=_MANY,
    )
    max_empty_polls: int = _setting(
        0,
        "A worker stops after finding no work this many times in a row. 0 is no limit.",
        "LONGSHORE_MAX_FAILURES",
        "MAX_CONSECUTIVE_FAILURES",
        at_least=0,
        at_most=_MANY,
    )
    max_idle_hours: float = _setting(
        0.0,
        "A worker stops after this many hours without work. 0 is no limit.",
        "MAX_IDLE_HOURS",
        at_least=0,
        at_most=_YEARS_IN_HOURS,
    )
    workers: int = _setting(
        2, "How many worker processes `run` and `fleet` start.", "WORKER_COUNT", at_least=1, at_most=1000
    )
    stagger: SecondsRange = _setting(  # noqa: RUF009 - a field like the others
        SecondsRange(2.0, 5.0),
        "Seconds between the starts of two workers of a fleet: a number, or a range to draw from.",
        at_most=_YEARS,
    )
    strict_partitions: bool = _setting(False, "Keep partitions exclusive: a worker whose own are empty helps no other.")
    contact: str | None = _setting(
        None, "Whom a site's owner may write to: an address or a page, said in the user agent."
    )
    user_agent: str | None = _setting(
        None,
        "The user agent of every request, in place of our own. Rules in robots.txt are looked up by its first word.",
    )
    robots: bool = _setting(True, "Obey robots.txt. A handler may say otherwise for itself.")
    host_delay: SecondsRange = _setting(  # noqa: RUF009 - a field like the others
        SecondsRange(0.0, 0.0),
        "Seconds between two requests to one host, by all workers together: a number, or a range such as 8-20. "
        "0 learns from each host how fast it may be asked.",
        at_most=_YEARS,
        live=True,
    )
    host_first_rate: float = _setting(
        1.0,
        "Requests a second to a host of which nothing is known yet. From there the rate is learned.",
        at_least=0.0001,
        at_most=_MANY,
        live=True,
    )
    host_rate: float = _setting(
        1000.0,
        "The most requests a second to one host, by all workers together.",
        at_least=0.0001,
        at_most=_MANY,
        live=True,
    )
    transport: str = _setting(
        "aiohttp",
        "What fetches pages: `aiohttp`, or `curl`, which looks like a browser to sites that look closely.",
        choices=("aiohttp", "curl"),
    )
    cache_hours: float = _setting(
        0.0, "How long a page may be taken from the cache on disk. 0 is no cache.", at_least=0, at_most=_YEARS_IN_HOURS
    )
    proxy_file: str | None = _setting(None, "The file with the proxies, one a line.", "PROXY_FILE", live=True)
    proxy_rotation: bool = _setting(
        True,
        "Every request may take any proxy. Off, each worker of a fleet keeps to its own share of them.",
        "PROXY_ROTATION_ENABLED",
        live=True,
    )
    proxy_strategy: str = _setting(
        "round_robin",
        "Which proxy a request takes.",
        "PROXY_SELECTION_STRATEGY",
        choices=("round_robin", "random", "least_used", "sticky"),
        live=True,
    )
    proxy_blacklist_threshold: int = _setting(
        10,
        "After so many failures in a row a proxy rests: at the host that refused it, or everywhere.",
        "PROXY_BLACKLIST_THRESHOLD",
        at_least=1,
        at_most=_MANY,
        live=True,
    )
    proxy_blacklist_minutes: float = _setting(
        60.0,
        "How long a proxy rests.",
        "PROXY_BLACKLIST_DURATION_MINUTES",
        at_least=0.1,
        at_most=_YEARS_IN_HOURS,
        live=True,
    )
    browser: str = _setting(
        "playwright", "What `kit.browser` drives the browser with.", choices=("playwright", "selenium")
    )
    max_targets_per_browser: int = _setting(
        100,
        "After so many pages the browser is replaced by a new one.",
        "MAX_TARGETS_PER_BROWSER",
        at_least=1,
        at_most=_MANY,
    )
    browser_blocked: str | None = _setting(
        None,
        "What `kit.browser` does not load, separated by commas: image, media, font, stylesheet, script, xhr, fetch.",
    )
    tor: bool = _setting(False, "Send all requests through Tor; each worker has a Tor of its own.")
    tor_config: str | None = _setting(None, "A file of Tor's own configuration: bridges, the country of the exit.")
    keep_pages: bool = _setting(False, "Keep every page that is fetched, so that `reparse` needs no request.")
    bundles: int = _setting(
        1, "How many failures of each kind are kept whole, for `replay`. 0 is none.", at_least=0, at_most=1000
    )
    data_folder: str = _setting(".longshore", "Where records, pages and failure bundles are kept.")
    records_database: str | None = _setting(
        None, "A PostgreSQL database, by its URL, that records go to in place of the data folder."
    )
    vpn: bool = _setting(True, "Work only while the egress checks below hold. Without any check, say so once and work.")
    egress_interface: str | None = _setting(
        None, "Egress check: this network interface must be there and up (tun0, wg0)."
    )
    egress_allowed: str | None = _setting(
        None, "Egress check: the public address must be in one of these ranges, separated by commas."
    )
    egress_forbidden: str | None = _setting(
        None, "Egress check: the public address must be in none of these ranges (the home address)."
    )
    egress_check_url: str | None = _setting(
        None, "What answers with the public address, as text or as JSON with the key `ip`."
    )
    egress_every: float = _setting(60.0, "Seconds between two egress checks.", at_least=1, at_most=_YEARS)
    database: bool = _setting(
        True, "Whether handlers write to a database of their own. They find it in `LONGSHORE_DATABASE`."
    )
    debug: bool = _setting(False, "Log every step, and show where an error came from.", "DEBUG")
    log_format: str = _setting(
        "auto",
        "`text` for people, `json` for machines; `auto` is text on a terminal and JSON when piped.",
        choices=("auto", "text", "json"),
    )
    sources: Mapping[str, ValueSource] = field(default_factory=dict)

    @property
    def lease(self) -> timedelta:
        """The lease length as a duration."""
        return timedelta(seconds=self.lease_seconds)

    @property
    def poll(self) -> timedelta:
        """The poll interval as a duration."""
        return timedelta(seconds=self.poll_interval)

    @property
    def delay(self) -> SecondsRange:
        """The pause between two jobs of a worker."""
        return SecondsRange(self.min_delay_seconds, max(self.min_delay_seconds, self.max_delay_seconds))

    def with_changes(self, new: Settings, names: Iterable[str]) -> Settings:
        """These settings, with the values (and their sources) of those named taken from `new`."""
        named = frozenset(names)
        kept = {name: source for name, source in self.sources.items() if name not in named}
        taken = {name: source for name, source in new.sources.items() if name in named}
        return replace(self, **{name: getattr(new, name) for name in named}, sources={**kept, **taken})

    def source(self, name: str) -> ValueSource:
        """Where the value of a setting came from."""
        return self.sources.get(name, DEFAULT)

    def shown(self, name: str) -> str:
        """The value of a setting as text that is safe to show."""
        return show(getattr(self, name))


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    type: type
    default: Any
    meaning: str
    aliases: tuple[str, ...]
    at_least: float | None
    at_most: float | None
    choices: tuple[str, ...]
    live: bool
    """A worker takes on a change of it without a restart."""

    @property
    def variable(self) -> str:
        """The canonical environment variable."""
        return f"{PREFIX}{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Every environment variable it answers to, the canonical one first."""
        return (self.variable, *self.aliases)

    @property
    def flag(self) -> str:
        """What it is called on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def allowed(self) -> str:
        """What it takes, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type is bool:
            return "true or false"
        if self.type is str:
            return "text"
        if self.type is SecondsRange:
            return "a number, or a range such as 2-5" + (f", of at most {self.at_most:,}" if self.at_most else "")
        noun = "a whole number" if self.type is int else "a number"
        if self.at_least is None:
            return noun
        return f"{noun} of at least {self.at_least:g}" + (f" and at most {self.at_most:,}" if self.at_most else "")

    def holds(self, value: Any) -> bool:
        """Whether a value of its type lies within its bounds and is one of its choices."""
        if self.choices and value not in self.choices:
            return False
        low, high = (value.low, value.high) if isinstance(value, SecondsRange) else (value, value)
        return (self.at_least is None or low >= self.at_least) and (self.at_most is None or high <= self.at_most)


def _table() -> dict[str, Setting]:
    hints = typing.get_type_hints(Settings)
    return {
        f.name: Setting(
            name=f.name,
            type=next(t for t in (typing.get_args(hints[f.name]) or (hints[f.name],)) if t is not type(None)),
            default=f.default,
            **f.metadata,
        )
        for f in fields(Settings)
        if f.metadata
    }


TABLE: Mapping[str, Setting] = _table()
"""Every setting by its name, in the order they are shown."""
