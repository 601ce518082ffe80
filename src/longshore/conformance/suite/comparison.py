"""The medium beside the reference: the same random operations on both must give the same answers and the same jobs."""

from __future__ import annotations

import asyncio
import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from longshore.conformance.harness import NewHarness
from longshore.conformance.model_test import machine_for
from longshore.conformance.scene import Scene

LONG = bool(os.environ.get("LONGSHORE_LONG"))
"""Set to spend minutes rather than seconds."""
PHASES = [Phase.explicit, Phase.generate, Phase.shrink]
"""Walks are made, and one that fails is made as short as it goes, for whoever has to read it."""


class ComparisonTests(Scene):
    async def test_the_medium_does_what_the_reference_does(self, new_harness: NewHarness) -> None:
        harness = new_harness()
        examples = harness.examples * (40 if LONG else 1)
        await harness.close()
        walk = settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            database=None,
            # The short walks are the same each time, so that a change that breaks nothing is never red by chance.
            derandomize=not LONG,
            suppress_health_check=list(HealthCheck),
            phases=PHASES,
            print_blob=LONG,
        )
        # The machine runs a loop of its own for each walk, which cannot be done inside this one.
        await asyncio.to_thread(run_state_machine_as_test, machine_for(new_harness), settings=walk)
