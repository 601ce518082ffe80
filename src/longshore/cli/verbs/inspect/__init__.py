"""Verbs that only look."""
