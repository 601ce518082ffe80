"""The files of a directory queue: names, contents, listings."""
