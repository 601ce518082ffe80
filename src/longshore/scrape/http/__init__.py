"""The HTTP client of the kit."""
