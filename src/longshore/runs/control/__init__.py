"""Pause, limit, release and prune the jobs of a run."""
