"""Estimates of when a run will be done. Callers take them from `Forecast` snapshots or from `estimate`."""
