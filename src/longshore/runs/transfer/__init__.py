"""Jobs copied or moved between queues, and worked on offline."""
