"""Applies settings that change while a worker runs: concurrency, delay, host rates, proxies."""

from __future__ import annotations

import structlog

from longshore.errors import InputFileError, UsageError
from longshore.settings import Settings
from longshore.worker.assembly import Parts
from longshore.worker.kit.config import KitConfig
from longshore.worker.kit.rate_policy import rate_policy
from longshore.worker.lifecycle.hangup import Hangup
from longshore.worker.lifecycle.live_settings import LiveSettings

_LOOK_SECONDS = 1.0
"""Between two looks at the proxy file."""

log = structlog.get_logger()


class SettingsFollower:
    """Keeps the parts of a worker up to date with its live settings and its proxy file."""

    def __init__(self, parts: Parts, live: LiveSettings) -> None:
        self._parts = parts
        self._live = live
        self._config = parts.context.config
        self._clock = parts.context.clock
        self._logged_refusal = ""
        """The last logged reason why the proxy file could not be read."""

    async def follow_settings(self) -> None:
        """Apply changed settings until cancelled."""
        with Hangup(asked=self._live.ask, terminal_gone=self._parts.shutdown.terminal_gone):
            await self._live.watch(self._clock, self._apply)

    async def follow_proxies(self) -> None:
        """Read the proxy file again when it has changed, or when it has become readable, until cancelled."""
        before = None
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            kit = self._kit(self._live.settings)
            # A file that has changed since the last look may still be written.
            if kit.proxies == before:
                self._apply_proxies(kit)
            before = kit.proxies

    def _apply(self, settings: Settings) -> None:
        parts = self._parts
        if parts.shutdown.stopping.is_set():
            return
        parts.spacing.change(settings.concurrency, settings.delay)
        kit = self._kit(settings)
        parts.limiter.limiter.policy = rate_policy(kit)
        self._apply_proxies(kit)
        if parts.spacing.pauses:
            # Ready jobs would only wait here for their turn.
            in_flight = parts.context.in_flight
            in_flight.give_back(in_flight.leases.take_back())
        parts.executors.resize(settings.concurrency)

    def _kit(self, settings: Settings) -> KitConfig:
        proxies = self._config.kit.proxies
        return KitConfig.of(settings, self._config.worker, number=proxies.number, workers=proxies.workers)

    def _apply_proxies(self, kit: KitConfig) -> None:
        tools = self._parts.tools
        before = tools.config.proxies
        try:
            tools.change(kit)
        except UsageError as error:
            if str(error) != self._logged_refusal:
                self._logged_refusal = str(error)
                until = ", until their file can be read" if isinstance(error, InputFileError) else ""
                log.warning(f"The proxies stay as they were{until}: {error}")
            return
        self._logged_refusal = ""
        self._parts.children.change(tools.config)
        if kit.proxies.file is not None and kit.proxies != before:
            log.info(f"Proxies read: {kit.proxies.file}")
