"""Where a run on one machine keeps its files, and the settings it takes when none are given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HOME = Path(".longshore")
"""The folder for everything a command keeps between two starts."""

LOCAL_DEFAULTS: Mapping[str, float] = {"lease_seconds": 15.0, "poll_interval": 1.0}
"""Defaults of `run` that differ from the table of settings. All workers are on this machine and are restarted by their
supervisor, so a job of a killed worker can be claimed again soon."""
