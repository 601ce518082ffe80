"""Handlers: `@handler` on a function, or a `Worker` class; their parameters, results and kit."""
