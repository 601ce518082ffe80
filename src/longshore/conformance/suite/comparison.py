"""The comparison with the reference: the same random operations must give the same results and the same jobs."""

from __future__ import annotations

import asyncio
import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from longshore.conformance.harness import NewHarness
from longshore.conformance.model_test import machine_for
from longshore.conformance.scene import Scene

LONG = bool(os.environ.get("LONGSHORE_LONG"))
"""Set this variable to run for minutes instead of seconds."""
PHASES = [Phase.explicit, Phase.generate, Phase.shrink]
"""Random walks are generated, and a failing one is shrunk to the shortest that fails."""


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
            # The short run is deterministic, so that a correct change never fails by chance.
            derandomize=not LONG,
            suppress_health_check=list(HealthCheck),
            phases=PHASES,
            print_blob=LONG,
        )
        # The machine runs its own event loop for each walk, which is not possible inside this one.
        await asyncio.to_thread(run_state_machine_as_test, machine_for(new_harness), settings=walk)
