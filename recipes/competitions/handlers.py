"""The handler for `longshore work competitions/handlers.py`, without the face of `competitions.worker`."""

from __future__ import annotations

import sys
from pathlib import Path

# `longshore` itself does not look for modules in the folder where it is started.
sys.path.append(str(Path(__file__).parents[1]))

from competitions.worker import DistributedWorker, competition_handler

competition = competition_handler(DistributedWorker.scrape)
