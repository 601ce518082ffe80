"""The rows of a query as jobs, from SQLite or PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from longshore.errors import InputFileError, LongshoreError
from longshore.runs.sources.template import Shape
from longshore.runs.submit.input_files import InputEntry
from longshore.system.loop_thread import LoopThread
from longshore.url import mask_url

if TYPE_CHECKING:
    from longshore.media.postgres.user_query import RowPage

_SERVER = re.compile(r"postgres(ql)?:")
_PAGE = 1000
"""Rows held in memory at once."""


@dataclass(frozen=True)
class SqlQuery:
    """A job for each row, with the columns as its payload. The database is only read.

    Parameters are written in the query as `:name`. Dates, decimals and UUIDs become text; raw bytes are refused.
    """

    database: str
    """`postgresql://…`; or the file of an SQLite database, by its path or as `sqlite:///path`."""
    query: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    shape: Shape = field(default_factory=Shape)

    @property
    def name(self) -> str:
        """Name of the source, for messages: the database URL without its password."""
        return mask_url(self.database)

    @property
    def rereadable(self) -> bool:
        """False: a query may be slow, and need not return the same rows twice."""
        return False

    def entries(self) -> Iterator[InputEntry]:
        """Yield every row in the query's order. Raise `InputFileError` if the query fails or a row cannot be a job."""
        pages = self._from_server() if _SERVER.match(self.database) else self._from_file()
        for number, row in enumerate((row for page in pages for row in page), start=1):
            try:
                yield self.shape.entry({column: _plain(column, value) for column, value in row.items()})
            except ValueError as error:
                raise InputFileError(f"{self.name}, row {number} of the query: {error}") from error

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for a query without rows."""
        raise InputFileError(f"There are no jobs in {self.name}: the query finds no row.")

    def _from_file(self) -> Iterator[list[dict[str, Any]]]:
        import sqlite3

        path = Path(self.database.removeprefix("sqlite:///"))
        if not path.is_file():
            raise InputFileError(f"There is no database {path}. Name the file of one, or a postgresql:// URL.")
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                found = connection.execute(self.query, dict(self.parameters))
                columns = [column for column, *_ in found.description or ()]
                self._check(columns)
                while page := found.fetchmany(_PAGE):
                    yield [dict(zip(columns, row, strict=True)) for row in page]
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise InputFileError(f"The query fails in {path}: {str(error).rstrip('.')}. {_FIX}") from error

    def _from_server(self) -> Iterator[list[dict[str, Any]]]:
        # Imported here because its driver is an optional dependency.
        from longshore.media.postgres.user_query import pages_of

        loop = LoopThread("query")
        pages = pages_of(self.database, self.query, self.parameters, size=_PAGE)
        try:
            while page := loop.call(_next(pages)):
                self._check(page.columns)
                yield [dict(zip(page.columns, row, strict=True)) for row in page.rows]
        except InputFileError:
            raise
        except LongshoreError as error:
            raise InputFileError(str(error)) from error
        finally:
            loop.call(pages.aclose())
            loop.close()

    def _check(self, columns: list[str]) -> None:
        if not columns:
            raise InputFileError(f"The query for {self.name} returns no rows. {_FIX}")
        if twice := [column for column in columns if columns.count(column) > 1]:
            raise InputFileError(
                f"Two columns of the query for {self.name} are called '{twice[0]}'. Rename one of them with AS."
            )


async def _next(pages: AsyncIterator[RowPage]) -> RowPage | None:
    return await anext(pages, None)


_FIX = "It must be one SELECT, with a value for each of its parameters (:name)."


def _plain(column: str, value: Any) -> Any:
    if value is None or type(value) in {str, int, float, bool}:
        return value
    # Values that JSON cannot express (such as bytes) are refused rather than converted by a guess.
    with suppress(TypeError, NotImplementedError):
        if not isinstance(value, bytes | bytearray | memoryview):
            return msgspec.to_builtins(value)
    raise ValueError(
        f"'{column}' holds a {type(value).__name__}, which a job cannot hold. Leave it out, or cast it to text."
    )
