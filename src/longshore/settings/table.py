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
"""Old names of settings that users' files may contain, with the current name of each."""
OLD_FLAGS = {"--api-url": "--queue", "--environment": "--profile", "--max-failures": "--max-empty-polls"}
"""Flags of older systems that every command takes which has the current flag. Its help names only the current one."""

SECRETS = frozenset({"api_key"})
"""Settings whose value is never shown, and never an argument of another process."""

# Far beyond any real use, and within the limits of every clock, timer and medium.
_YEARS_IN_HOURS = 10 * 365 * 24
_YEARS = _YEARS_IN_HOURS * 3600
_LONGEST_LEASE = 30 * 24 * 3600
_MANY = 10**12


@dataclass(frozen=True)
class ValueSource:
    """The source of a value: `command line`, `environment`, `.env`, `longshore.toml`, `profile` or `default`."""

    level: str
    name: str = ""
    """Its name in this source: a flag, a variable, a key; for a profile, the name of the profile."""

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
    """The values of all settings, and in `sources` the source of each."""

    profile: str = _setting(
        "production",
        "A named group of settings: development, testing, production, or one of your own.",
        "ENVIRONMENT",
    )
    queue: str = _setting(
        DEFAULT_QUEUE,
        "The URL of the queue. Its scheme selects the medium.",
        "GITHUB_REPO_URL",
        "QUEUE_DIR",
        "TASKMANAGER_API_URL",
    )
    api_key: str | None = _setting(
        None, "The key for a queue over HTTP. Only from the environment or `.env`, so that no command line shows it."
    )
    lease_seconds: float = _setting(
        300.0,
        "Seconds after the last sign of life of a worker until its jobs are given to others.",
        at_least=1,
        at_most=_LONGEST_LEASE,
    )
    worker_id: str | None = _setting(
        None,
        "The worker's label in logs and statistics. The default is made of host, process id and random digits.",
        "WORKER_ID",
    )
    concurrency: int = _setting(8, "How many jobs a worker runs at once.", at_least=1, at_most=10_000, live=True)
    min_delay_seconds: float = _setting(
        0.0,
        "The shortest pause between two jobs of a worker, in seconds. Each pause has a random length. 0 is none.",
        "MIN_DELAY_SECONDS",
        at_least=0,
        at_most=_YEARS,
        live=True,
    )
    max_delay_seconds: float = _setting(
        0.0,
        "The longest pause between two jobs of a worker, in seconds. Without it, every pause is the shortest.",
        "MAX_DELAY_SECONDS",
        at_least=0,
        at_most=_YEARS,
        live=True,
    )
    batch_size: int = _setting(100, "The most jobs that a worker claims at a time.", at_least=1, at_most=100_000)
    poll_interval: float = _setting(
        10.0,
        "The longest wait, in seconds, between two polls for work.",
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
        "Seconds between the starts of two workers of a fleet: a number, or a range for a random number.",
        at_most=_YEARS,
    )
    strict_partitions: bool = _setting(
        False, "Keep partitions exclusive: a worker whose partitions are empty does not take jobs of others."
    )
    contact: str | None = _setting(None, "Your address or page for owners of sites; it becomes part of the user agent.")
    user_agent: str | None = _setting(
        None,
        "The user agent of every request, instead of the default. Its first word selects the rules in robots.txt.",
    )
    robots: bool = _setting(True, "Obey robots.txt. A handler can override it for itself.")
    host_delay: SecondsRange = _setting(  # noqa: RUF009 - a field like the others
        SecondsRange(0.0, 0.0),
        "Seconds between two requests to one host, by all workers together: a number, or a range such as 8-20. "
        "With 0, the rate of each host is learned from its responses.",
        at_most=_YEARS,
        live=True,
    )
    host_first_rate: float = _setting(
        1.0,
        "Requests per second to a host that was not requested before. From there the rate is learned.",
        at_least=0.0001,
        at_most=_MANY,
        live=True,
    )
    host_rate: float = _setting(
        1000.0,
        "The most requests per second to one host, by all workers together.",
        at_least=0.0001,
        at_most=_MANY,
        live=True,
    )
    transport: str = _setting(
        "aiohttp",
        "The HTTP client: `aiohttp`, or `curl`, whose connections look like a browser's.",
        choices=("aiohttp", "curl"),
    )
    private_hosts: str | None = _setting(
        None,
        "Hosts on a private network that pages may lead to, comma-separated: names, addresses, networks (10.0.0.0/8). "
        "Hosts of submitted jobs need no entry.",
    )
    block_pages: str | None = _setting(
        None,
        "Pages that are refusals although their status is ordinary: SIGN=VALUE; SIGN=VALUE. Signs: text, title, "
        "selector, redirected_to, shorter_than, shorter_than_usual.",
    )
    known_block_pages: bool = _setting(True, "Recognise the block pages of large delivery networks and bot filters.")
    cache_hours: float = _setting(
        0.0,
        "How many hours a page is reused from the cache on disk. 0 is no cache.",
        at_least=0,
        at_most=_YEARS_IN_HOURS,
    )
    proxy_file: str | None = _setting(None, "The file with the proxies, one per line.", "PROXY_FILE", live=True)
    proxy_rotation: bool = _setting(
        True,
        "Every request may use any proxy. If off, each worker of a fleet uses only its own share of them.",
        "PROXY_ROTATION_ENABLED",
        live=True,
    )
    proxy_strategy: str = _setting(
        "round_robin",
        "How the proxy of a request is chosen.",
        "PROXY_SELECTION_STRATEGY",
        choices=("round_robin", "random", "least_used", "sticky"),
        live=True,
    )
    proxy_blacklist_threshold: int = _setting(
        10,
        "Failures in a row after which a proxy is not used for a time: for the host that refused it, or for all.",
        "PROXY_BLACKLIST_THRESHOLD",
        at_least=1,
        at_most=_MANY,
        live=True,
    )
    proxy_blacklist_minutes: float = _setting(
        60.0,
        "How many minutes such a proxy is not used.",
        "PROXY_BLACKLIST_DURATION_MINUTES",
        at_least=0.1,
        at_most=_YEARS_IN_HOURS,
        live=True,
    )
    browser: str = _setting("playwright", "The library behind `kit.browser`.", choices=("playwright", "selenium"))
    max_targets_per_browser: int = _setting(
        100,
        "The number of pages after which the browser is replaced by a new one.",
        "MAX_TARGETS_PER_BROWSER",
        at_least=1,
        at_most=_MANY,
    )
    browser_blocked: str | None = _setting(
        None,
        "Resources not loaded by `kit.browser`, comma-separated: image, media, font, stylesheet, script, xhr, fetch.",
    )
    tor: bool = _setting(False, "Send all requests through Tor; each worker starts its own Tor.")
    tor_config: str | None = _setting(None, "A file with Tor's own configuration: bridges, the country of the exit.")
    keep_pages: bool = _setting(False, "Keep every fetched page, so that `reparse` needs no request.")
    bundles: int = _setting(
        1, "How many failure bundles are kept per kind of failure, for `replay`. 0 is none.", at_least=0, at_most=1000
    )
    data_folder: str = _setting(".longshore", "The folder of records, pages and failure bundles.")
    records_database: str | None = _setting(
        None, "The URL of a PostgreSQL database for records, instead of the data folder."
    )
    vpn: bool = _setting(
        True, "Work only while the egress checks below pass. Without any check, a worker works; `doctor` says so."
    )
    egress_interface: str | None = _setting(
        None, "Egress check: this network interface must exist and be up (tun0, wg0)."
    )
    egress_allowed: str | None = _setting(
        None, "Egress check: the public address must be in one of these ranges, separated by commas."
    )
    egress_forbidden: str | None = _setting(
        None, "Egress check: the public address must be in none of these ranges (the home address)."
    )
    egress_check_url: str | None = _setting(
        None, "The URL that returns the public address, as text or as JSON with the key `ip`."
    )
    egress_every: float = _setting(60.0, "Seconds between two egress checks.", at_least=1, at_most=_YEARS)
    database: bool = _setting(
        True, "Whether handlers write to their own database. They read this in `LONGSHORE_DATABASE`."
    )
    pass_env: str | None = _setting(
        None,
        "Variables of the environment that plain handlers see, comma-separated: names, or patterns such as `SHOP_*`. "
        "Programs' own variables (`PATH`, `HOME`, …) are always passed. Without this setting all are.",
    )
    read_only: bool = _setting(False, "Let `serve` only show the queue: it refuses every request that writes.")
    debug: bool = _setting(False, "Log every step, and show the traceback of errors.", "DEBUG")
    metrics_port: int | None = _setting(
        None, "`work` and `fleet` offer metrics and health on this port. 0 is a free one.", at_least=0, at_most=65535
    )
    metrics_host: str = _setting("127.0.0.1", "The address that `metrics_port` listens on; 0.0.0.0 is all networks.")
    traces: bool = _setting(
        False, "Send OpenTelemetry traces of jobs to the endpoint that `OTEL_EXPORTER_OTLP_ENDPOINT` names."
    )
    log_format: str = _setting(
        "auto",
        "`text` for people, `json` for programs. `auto` is text.",
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
        """Return these settings, with the values and sources of those in `names` taken from `new`."""
        named = frozenset(names)
        kept = {name: source for name, source in self.sources.items() if name not in named}
        taken = {name: source for name, source in new.sources.items() if name in named}
        return replace(self, **{name: getattr(new, name) for name in named}, sources={**kept, **taken})

    def source(self, name: str) -> ValueSource:
        """Return the source of a setting's value."""
        return self.sources.get(name, DEFAULT)

    def shown(self, name: str) -> str:
        """Return the value of a setting as text that is safe to show."""
        shown = show(getattr(self, name))
        return "***" if shown and name in SECRETS else shown


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
    """Whether a running worker applies a change without a restart."""

    @property
    def variable(self) -> str:
        """The canonical environment variable."""
        return f"{PREFIX}{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """All its environment variables, the canonical one first."""
        return (self.variable, *self.aliases)

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def allowed(self) -> str:
        """A description of the allowed values."""
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
        """Return whether a value of its type is within its limits and is one of its choices."""
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
"""All settings by name, in the order in which they are shown."""
