"""Git objects: read and written without starting git."""
