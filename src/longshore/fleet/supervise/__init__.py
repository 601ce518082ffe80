"""The supervisor of worker processes, and how it talks to them."""
