"""Published code in a terminal: the question before it runs, and lists of versions."""
