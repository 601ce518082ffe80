"""The traces of workers over HTTP, kept in the data folder of the server."""
