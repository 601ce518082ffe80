"""The clock of the leases: it counts like the machine's monotonic clock, so it does not step when the time is set.

All processes of one machine read the same monotonic clock, until the machine is started again. The file stores once for
each start what to add to it to get seconds since 1970, and every process adds that number. While the machine sleeps
this clock stands still, as the workers do (not on Windows).
"""

from __future__ import annotations

import sqlite3

from longshore.clock import Clock
from longshore.media.sqlite.database import Database
from longshore.media.sqlite.statements import statements

_SQL = statements("clock")


class LeaseClock:
    """The clock by which one open queue judges leases: the time of day if the start of the machine is unknown."""

    def __init__(self, clock: Clock, database: Database) -> None:
        self._clock = clock
        self._database = database
        self._boot = clock.boot
        self._offset: float | None = None

    async def now(self) -> float:
        """Return the seconds since 1970 as this clock counts them."""
        if not self._boot:
            return self._clock.now()
        if self._offset is None:
            self._offset = await self._shared_offset()
        return self._clock.monotonic() + self._offset

    async def _shared_offset(self) -> float:
        stored = await self._database.read(self._stored)
        # The write returns after its commit: an offset that was rolled back must not be used.
        return await self._database.write(self._begin) if stored is None else stored

    def _stored(self, db: sqlite3.Connection) -> float | None:
        row = db.execute(_SQL["offset"], (self._boot,)).fetchone()
        return None if row is None else float(row[0])

    def _begin(self, db: sqlite3.Connection) -> float:
        """Store the offset for this start of the machine, unless another process was faster; return the stored one."""
        offset = self._clock.now() - self._clock.monotonic()
        db.execute(_SQL["begin"], (self._boot, repr(offset).encode()))
        db.execute(_SQL["forget_others"], (self._boot,))
        stored = self._stored(db)
        return offset if stored is None else stored
