"""Words about a submission: its counts, the duplicates whose payloads differ, and the pages that were left out."""

from __future__ import annotations

from typing import Any

import msgspec

from longshore.runs.sources import Sitemap, Source
from longshore.runs.submit.submission import Submission
from longshore.ui.output import note
from longshore.ui.words import counted


def submission_json(done: Submission) -> dict[str, Any]:
    """Return a submission for JSON; the differing duplicates only if there are some."""
    fields = {"run_id": done.run_id, "submitted": done.submitted, "duplicates": done.duplicates}
    return {**fields, **({"differing_duplicates": msgspec.to_builtins(done.differing.kinds)} if done.differing else {})}


def note_differing(done: Submission) -> None:
    """Say how many jobs were left out although their payloads differ from the job that the run has."""
    if not done.differing:
        return
    fields = list(dict.fromkeys(field for each in done.differing.kinds.values() for field in each.fields))[:3]
    identity = ",".join(("url", *fields))
    note(
        f"{counted(done.differing.jobs, 'job')} left out: the run has another job with the same URL, which differs in "
        f"{', '.join(fields)}. If they are different jobs, submit them again with --identity {identity}."
    )


def note_left_out(source: Source) -> None:
    """Say how many pages of other sites a sitemap lists."""
    if isinstance(source, Sitemap) and source.left_out:
        pages = (
            "1 page of another site was" if source.left_out == 1 else f"{source.left_out:,} pages of other sites were"
        )
        note(f"{pages} left out: a sitemap stands for its own site. Submit them with --url or --urls-file.")
