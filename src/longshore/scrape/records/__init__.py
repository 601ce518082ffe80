"""Records: the data that handlers emit, stored in segments on disk and visible once their attempt is settled.

    kit.emit({"title": "…"}, kind="item")

The records of an attempt are collected in memory (`Emission`). The `RecordWriter` writes them as one line before the
settlement is sent, and adds a mark after the queue accepted the settlement. A `RecordReader` returns the records of the
attempts that completed the jobs of a queue; without a queue, those of the marked attempts. So an attempt that lost its
lease changes nothing, and no record is ever read twice or in part.
"""

from longshore.extensions.record_store import Record, RecordCounts
from longshore.scrape.records.emission import Emission, Emitted, EmittedRecord, Keep, RecordError, Rejected
from longshore.scrape.records.reader import RecordReader
from longshore.scrape.records.sink import RecordSink, SegmentSink
from longshore.scrape.records.writer import RecordWriter, next_revision

Survey = RecordReader
"""The name of `RecordReader` in earlier versions."""

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
    "Survey",
    "next_revision",
]
