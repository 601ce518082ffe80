"""Collecting the results of running runs into a folder."""
