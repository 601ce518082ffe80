"""Records: what handlers find, kept in segments on disk, visible once their attempt is settled.

    kit.emit({"title": "…"}, kind="item")

An attempt's records are gathered in memory (`Emission`), written as one line before its settlement is sent, and
followed by a mark after the settlement was accepted (`RecordWriter`). A `RecordReader` shows the records of attempts
that are marked; of those that are not, because their worker died in between, the queue knows. So an attempt that lost
its lease changes nothing, and no record is ever seen twice or in part.
"""

from longshore.extensions.record_store import Record, RecordCounts, Undecided
from longshore.scrape.records.emission import Emission, Emitted, EmittedRecord, Keep, RecordError, Rejected
from longshore.scrape.records.reader import RecordReader
from longshore.scrape.records.sink import RecordSink, SegmentSink
from longshore.scrape.records.writer import RecordWriter, next_revision

__all__ = [
    "Emission",
    "Emitted",
    "EmittedRecord",
    "Keep",
    "Record",
    "RecordCounts",
    "RecordError",
    "RecordReader",
    "RecordSink",
    "RecordWriter",
    "Rejected",
    "SegmentSink",
    "Undecided",
    "next_revision",
]
