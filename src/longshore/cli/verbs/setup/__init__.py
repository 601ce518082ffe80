"""Verbs that set up and check."""
