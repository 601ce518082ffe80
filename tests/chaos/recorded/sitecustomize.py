"""Python imports it at the start of every process of a trial: it asks no name server, and records its operations."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[2] / "fake_resolver" / "sitecustomize.py"))
if "LONGSHORE_TRIAL" in os.environ:
    from tests.chaos.recording import install

    install()
