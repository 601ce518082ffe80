"""Sources of jobs other than files of URLs and of jobs: sitemaps, CSV files, folders, queries, functions and more.

Every source is read while it is submitted, so memory does not grow with its size. Reading it again gives the same jobs,
so submitting twice is harmless.
"""

from __future__ import annotations

from longshore.runs.sources.csv_file import CsvFile
from longshore.runs.sources.generated import Generated, PythonSource
from longshore.runs.sources.product import Product, product
from longshore.runs.sources.scan import Scan
from longshore.runs.sources.sitemap import Sitemap
from longshore.runs.sources.source import Source
from longshore.runs.sources.sql_query import SqlQuery
from longshore.runs.sources.tables import source_in
from longshore.runs.sources.template import Shape, Template
from longshore.runs.sources.url_list import UrlList

__all__ = [
    "CsvFile",
    "Generated",
    "Product",
    "PythonSource",
    "Scan",
    "Shape",
    "Sitemap",
    "Source",
    "SqlQuery",
    "Template",
    "UrlList",
    "product",
    "source_in",
]
