"""The times at which a schedule is due: a cron line in a time zone.

Daylight saving time is handled as cron does it: a time of day that is skipped is due right after the gap, and one that
occurs twice is due once; a line for every hour or every few minutes follows the local clock through both.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from longshore.errors import UsageError

_FIELDS = 5
_AMBIGUOUS = timedelta(hours=3)
"""More than any local clock is ever set back. Within this span, local times may not be in the order of instants."""


class Timetable(msgspec.Struct, frozen=True):
    """A cron line (minute, hour, day, month, weekday) in a time zone. Raise `UsageError` if it matches no time."""

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
        """Return the first scheduled time after `instant` (both in seconds since 1970)."""
        for found in CronSim(self.cron, self._local(instant)):
            # In the hour that occurs twice, the line may name a time of the first occurrence.
            if found.timestamp() > instant:
                return found.timestamp()
        raise UsageError(f"--cron cannot be '{self.cron}': it names no time in the next fifty years.")

    def last(self, since: float, now: float) -> float | None:
        """Return the last scheduled time after `since` that is not after `now`; None if there is none."""
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
