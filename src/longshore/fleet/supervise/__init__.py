"""The supervisor of worker processes, and its communication with them."""
