"""Export: what a run found, as one file that other programs read. Streamed, and whole or not there.

rows       what is exported: a result for each completed job, or the records that handlers emitted
spool      rows that wait on disk, in the order they came or sorted
columns    fields of JSON as columns of a table
csv_text, parquet, sqlite_file      the tables, written
whole      a file that appears whole or not at all, packed as its name says
exporting  all of it together
"""

from longshore.runs.export.export import Exported, ExportFormat, ExportOrder, export, format_of
from longshore.runs.export.rows import RecordRows, ResultRows, Rows

__all__ = ["ExportFormat", "ExportOrder", "Exported", "RecordRows", "ResultRows", "Rows", "export", "format_of"]
