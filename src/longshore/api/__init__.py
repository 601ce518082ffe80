"""The commands as plain functions, for scripts and notebooks: each returns when its work is done.

They may be called from any thread, also from one in which an event loop runs.

local_runs   work on jobs here: `run`, `run_async`
local_workers  be one worker of a queue, in this process: `work`
scrapers     start a scraper by its name: `start`
pages        one page, as handlers fetch it: `fetch`
reading      what a run has: `items`, `results`, `status`, `stats`, `jobs`, `show`, `wait`, `export`
changes      what becomes of jobs: `submit`, `retry_jobs`, `cancel`, `pause`, `resume`, `archive`
published    code that travels with the queue: `publish`, `pin`
"""
