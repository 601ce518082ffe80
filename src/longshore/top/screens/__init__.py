"""The figures on a terminal: one file a screen, and one for each part of it."""
