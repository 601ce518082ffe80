"""The comparison with the reference: the same random operations must give the same results and the same jobs."""

from __future__ import annotations

import asyncio
import os
import secrets

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from longshore.conformance.harness import NewHarness
from longshore.conformance.model_test import machine_for
from longshore.conformance.scene import Scene

LONG = bool(os.environ.get("LONGSHORE_LONG"))
"""Set this variable to run for minutes instead of seconds."""
SEED = os.environ.get("LONGSHORE_TEST_SEED")
"""Set this variable to the seed of a failed test to repeat its random walks."""
PHASES = [Phase.explicit, Phase.generate, Phase.shrink]
"""Random walks are generated, and a failing one is shrunk to the shortest that fails."""


class ComparisonTests(Scene):
    async def test_the_medium_does_what_the_reference_does(self, new_harness: NewHarness) -> None:
        """These walks are always the same, so that a defect that came back fails every time."""
        await _walk(new_harness, number=None)

    async def test_the_medium_does_what_the_reference_does_on_fresh_walks(self, new_harness: NewHarness) -> None:
        """These walks are new each time: in the long run, they take the paths that the others never take."""
        number = secrets.randbits(32) if SEED is None else int(SEED)
        try:
            await _walk(new_harness, number=number)
        except BaseException as error:
            error.add_note(f"To repeat these walks, set LONGSHORE_TEST_SEED={number}")
            raise


async def _walk(new_harness: NewHarness, *, number: int | None) -> None:
    """Run random walks with this seed; without one, those that this version of Python always takes."""
    harness = new_harness()
    examples = harness.examples * (40 if LONG and number is not None else 1)
    await harness.close()
    walk = settings(
        max_examples=examples,
        stateful_step_count=50,
        deadline=None,
        database=None,
        derandomize=number is None,
        suppress_health_check=list(HealthCheck),
        phases=PHASES,
        print_blob=False,
    )
    machine = machine_for(new_harness) if number is None else seed(number)(machine_for(new_harness))
    # The machine runs its own event loop for each walk, which is not possible inside this one.
    await asyncio.to_thread(run_state_machine_as_test, machine, settings=walk)
