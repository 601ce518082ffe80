"""Access: API keys, their scopes, and the leases that they claimed."""
