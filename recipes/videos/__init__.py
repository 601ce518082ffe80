"""Searches and details of videos, as tasks over HTTP."""
