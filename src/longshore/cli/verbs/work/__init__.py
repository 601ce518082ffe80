"""Verbs that run work."""
