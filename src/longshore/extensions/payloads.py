"""Jobs by name: the payloads and ids of jobs that are known by run, kind and key.

`submit` and `settle` leave out a job whose name is taken, whatever its payload is. This extension tells whether the job
that has the name is the same one, and which id it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from longshore.job import JobName
from longshore.stored import JsonObject


@runtime_checkable
class PayloadLookup(Protocol):
    """Offered by a queue with the trait `finds_payloads`."""

    async def payloads(self, run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        """Return the payload of each of these jobs of a run, in order; None for a job that the queue does not have.

        Every process may call it. It must not read the other jobs of the run.
        """

    async def job_ids(self, run: str, names: Sequence[JobName]) -> list[str | None]:
        """Return the id of each of these jobs of a run, as `payloads` returns their payloads."""
