"""One file a verb, grouped as in the help."""
