"""Small mechanisms around asyncio, files and imports. Nothing here knows of jobs or queues."""
