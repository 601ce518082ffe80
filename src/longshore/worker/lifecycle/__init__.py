"""How a worker starts, follows its settings, and stops."""
