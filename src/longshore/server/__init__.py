"""The server: any queue over HTTP, for workers in any language and for people with a browser."""
