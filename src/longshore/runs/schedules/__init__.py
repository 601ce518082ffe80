"""Runs that workers start at scheduled times."""
