"""The rate policy that the settings of a worker's tools ask for."""

from __future__ import annotations

from longshore.pacing.host_rate import RatePolicy
from longshore.worker.kit.config import KitConfig


def rate_policy(config: KitConfig) -> RatePolicy:
    """Return what the settings say about the rate of requests to a host."""
    delay = config.host_delay
    return RatePolicy(
        first=min(config.host_first_rate, config.host_rate),
        slowest=min(RatePolicy().slowest, config.host_rate),
        fastest=config.host_rate,
        delay=(delay.low, delay.high) if delay.high else None,
    )
