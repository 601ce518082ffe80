"""A whole run on this machine."""
