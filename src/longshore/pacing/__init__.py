"""Rate limits per host: learned from the answers, and shared by all workers."""
