"""What people see in a terminal: words, tables, progress, live views."""
