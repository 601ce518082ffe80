"""Child processes that run plain handlers."""
