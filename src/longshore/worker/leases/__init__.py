"""Which jobs a worker holds, and how their leases are renewed."""
