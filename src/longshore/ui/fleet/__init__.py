"""A fleet on the screen: before its start, while it runs, at its end."""
