"""Runs that start by themselves at certain times."""
