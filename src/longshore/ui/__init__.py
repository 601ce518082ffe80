"""The output for people: words, tables, progress, live views. `cli`, `top` and `api` use it."""
