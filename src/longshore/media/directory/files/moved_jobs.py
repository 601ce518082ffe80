"""Tracks which jobs move while a process reads the folders."""

from __future__ import annotations

from longshore.media.directory.files.layout import file_of, place_of
from longshore.media.directory.journal.entry import JournalEntry


class MovedJobs:
    """The new path of each job that moved, by number; None for a job that was removed."""

    def __init__(self) -> None:
        self.moved: dict[int, str | None] = {}
        self.lost = False
        """Entries were missed: the folders must be read again."""

    def follow(self, entry: JournalEntry) -> None:
        """Record the moves of an entry."""
        for path in entry.removes:
            file = file_of(path.rpartition("/")[2])
            if file is not None:
                self.moved[file.number] = None
        for source, target in entry.moves:
            place = place_of(target)
            if place is not None:
                self.moved[place.file.number] = target
            elif (gone := place_of(source)) is not None:
                self.moved[gone.file.number] = None
