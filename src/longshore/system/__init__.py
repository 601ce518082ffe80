"""Mechanisms of the operating system and the event loop that know nothing of jobs."""
