"""Submitting the jobs of files and other sources to a run."""
