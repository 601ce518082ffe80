"""Where jobs come from, besides files of URLs and of jobs: tables, folders, queries, and functions that make them up.

Every source is read as it is submitted, so memory stays the same however much is in it; and gives the same jobs again
when it is read again, so submitting twice is harmless.
"""

from __future__ import annotations

from longshore.runs.sources.csv_file import CsvFile
from longshore.runs.sources.generated import Generated, Named
from longshore.runs.sources.product import Product, product
from longshore.runs.sources.scan import Scan
from longshore.runs.sources.source import Source
from longshore.runs.sources.sql_query import SqlQuery
from longshore.runs.sources.tables import source_in
from longshore.runs.sources.template import Shape, Template

__all__ = [
    "CsvFile",
    "Generated",
    "Named",
    "Product",
    "Scan",
    "Shape",
    "Source",
    "SqlQuery",
    "Template",
    "product",
    "source_in",
]
