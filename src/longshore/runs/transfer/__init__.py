"""Copying and moving jobs between queues, and offline checkouts."""
