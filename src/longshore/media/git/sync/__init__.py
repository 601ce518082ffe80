"""Fetch, push and retry: how changes reach the remote branch."""
