"""The README of the branch: what a person who opens it on a web page wants to know."""

from __future__ import annotations

README = """# A Longshore queue

This branch is written by Longshore workers; it has nothing to do with the other branches of the repository. One JSON
file is one job. Its folder is its state:

| folder | has |
|---|---|
| `available_work/` | jobs that wait for their first attempt |
| `active_work/` | jobs that are being worked on, in a folder for each worker |
| `retry_queue/` | jobs that failed and wait for another attempt; the file says why |
| `completed_work/` | finished jobs with their results |
| `failed_work/` | jobs that failed for good, with the reason |
| `cancelled_work/` | jobs that a person cancelled |
| `archive/` | old finished jobs, compressed, a folder for each month |
| `rejected_work/` | files that were edited by hand and are none of the jobs any more, with the reason |
| `workers/` | the workers: a file for each, written again while it is alive |
| `lanes/`, `notes/`, `longshore.json`, `uuid.txt` | counters, settings that the workers share, the format |

A file's name begins with the name of its job: its key, or the host and path of its URL. After the `~` come its number
and what workers must know to choose it. The commits say who did what.

You may read everything, and clone the branch. Do not edit it: counters elsewhere on the branch depend on every file.
"""
