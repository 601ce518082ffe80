"""Business listings by state, city and category, collected by ten workers."""
