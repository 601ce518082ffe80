"""The kit a handler is given to fetch things with."""
