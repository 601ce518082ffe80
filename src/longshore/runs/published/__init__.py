"""Code that travels with the queue: publish handlers, and verify, accept, unpack and run them on another machine.

docs/decisions/0018-code-travels-with-the-queue.md says what is trusted when.
"""
