"""Watching runs: their progress, their workers, their failures and what blocks them."""
