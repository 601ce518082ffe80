"""When a schedule is due: a cron line, read in a time zone.

Summer time is treated as cron does: a time of day that is skipped comes as soon as the clock goes on, and one that
comes twice counts once; a line for every hour or every few minutes follows the clock on the wall as it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from longshore.errors import UsageError

_FIELDS = 5
_AMBIGUOUS = timedelta(hours=3)
"""More than any clock on a wall is ever set back: so far the order of its times may not be the order of instants."""


class Timetable(msgspec.Struct, frozen=True):
    """A cron line (minute, hour, day, month, weekday) in a time zone. `UsageError` for one that says no time at all."""

    cron: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if len(self.cron.split()) != _FIELDS:
            raise UsageError(
                f"--cron cannot be '{self.cron}': it takes five fields, minute hour day month weekday, as in "
                "'0 2 * * *' for every night at two."
            )
        self._zone()
        try:
            self.after(datetime.now(UTC).timestamp())
        except CronSimError as error:
            raise UsageError(f"--cron cannot be '{self.cron}': {error}.") from error

    def after(self, instant: float) -> float:
        """The first time after an instant (both in seconds since 1970)."""
        for found in CronSim(self.cron, self._local(instant)):
            # Within the hour that comes twice, the line may name a time of its first half.
            if found.timestamp() > instant:
                return found.timestamp()
        raise UsageError(f"--cron cannot be '{self.cron}': it names no time in the coming fifty years.")

    def last(self, since: float, now: float) -> float | None:
        """The last time after `since` that is not after `now`; None where there was none."""
        later = self._local(now) + _AMBIGUOUS
        for found in CronSim(self.cron, later, reverse=True):
            instant = found.timestamp()
            if instant <= now:
                return instant if instant > since else None
        return None

    def _local(self, instant: float) -> datetime:
        return datetime.fromtimestamp(instant, self._zone())

    def _zone(self) -> ZoneInfo:
        try:
            return ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(
                f"There is no time zone '{self.zone}'. Name it as in Europe/Berlin or America/New_York."
            ) from error
