"""A run that this machine works on, on the screen: its progress, notices and summary."""
