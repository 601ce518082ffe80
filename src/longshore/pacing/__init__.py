"""How fast each host is asked: learned, and shared by all workers."""
