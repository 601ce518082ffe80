"""Seven registers of medicine prices, made up: a process of their own, unfriendly, and with their own truth."""
