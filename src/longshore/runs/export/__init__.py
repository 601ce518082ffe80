"""Export: the results or records of a run as one file for other programs. It is streamed and written atomically.

rows         the exported rows: a result for each completed job, or the records that handlers emitted
spool        rows stored temporarily on disk, in the order of arrival or sorted
columns      JSON fields as columns of a table
csv_file, parquet, sqlite_file      writers of tables
output_file  a file that is written atomically, compressed if its name says so
items        the records of a run that was worked on here, in one file or one for each kind
results      the results of a run that was worked on here
export       all of it together
"""

from longshore.runs.export.export import Exported, ExportFormat, ExportOrder, export, format_of
from longshore.runs.export.rows import ItemRows, RecordRows, ResultRows, Rows

__all__ = [
    "ExportFormat",
    "ExportOrder",
    "Exported",
    "ItemRows",
    "RecordRows",
    "ResultRows",
    "Rows",
    "export",
    "format_of",
]
