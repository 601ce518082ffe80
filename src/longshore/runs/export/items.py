"""The items of a run in a file of their own, or in one for each kind."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import PurePath
from urllib.parse import quote

import msgspec

from longshore.errors import UsageError
from longshore.runs.export.export import ExportFormat, ExportOrder, export, format_of
from longshore.runs.export.output_file import STDOUT, check_out
from longshore.runs.export.parquet import check_parquet
from longshore.runs.export.rows import ItemRows
from longshore.runs.records.run_records import RunRecords

_KIND = "{kind}"
_LONGEST_NAME = 100
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d) *(\.|\Z)", re.IGNORECASE)
"""Names that Windows takes for devices."""


class ItemsFile(msgspec.Struct, frozen=True):
    """The file for the items of a run: its name says the format, and `{kind}` in it makes a file for each kind."""

    out: str
    bare: bool = False
    """Whether the items are written without the job that they came from."""

    @property
    def format(self) -> ExportFormat:
        """The format that the name implies."""
        return format_of(self.out, None, choosing=False)

    def check(self) -> None:
        """Raise `UsageError`, before any work is done, if the file cannot be written."""
        if self.format is ExportFormat.PARQUET:
            check_parquet()
        if _KIND in self.out and _KIND not in PurePath(self.out).name:
            raise UsageError(f"--items {self.out}: {_KIND} may be part of the file's name, not of its folder.")
        check_out(self.out.replace(_KIND, "kind"), "--items", self.out)

    async def write(self, run: str, records: RunRecords) -> dict[str, int]:
        """Write all items that the run has now. Return the number of items in each file; no file for no item."""
        if _KIND not in self.out:
            return await self._write(self.out, run, records, None)
        kinds = sorted({record.kind async for record in records.records()})
        written: dict[str, int] = {}
        for kind, name in names_of(kinds).items():
            written |= await self._write(self.out.replace(_KIND, name), run, records, kind)
        return written

    async def _write(self, out: str, run: str, records: RunRecords, kind: str | None) -> dict[str, int]:
        rows = ItemRows(run, records, kind, bare=self.bare)
        if out != STDOUT and not await _has_any(rows):
            return {}
        done = await export(rows, out, self.format, ExportOrder.AGE, progress=lambda _: None)
        return {out: done.rows}


def items_file(items: str | None, out: str | None, *, bare: bool) -> ItemsFile | None:
    """Return the checked file for the items; None if none is named. `out` is the file of the results."""
    if items is None:
        if bare:
            raise UsageError("--bare belongs to --items.")
        return None
    if items == out:
        raise UsageError(f"--items and --out both name {items}. Choose two files.")
    file = ItemsFile(items, bare)
    file.check()
    return file


async def _has_any(rows: ItemRows) -> bool:
    each: AsyncIterator[object] = rows.each()
    return await anext(each, None) is not None


def names_of(kinds: Sequence[str]) -> dict[str, str]:
    """Return each kind as part of a file name, which differs from the others on every system.

    A handler may take a kind from a page, so a name must not lead elsewhere, and not replace or prevent another file.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for kind in kinds:
        name = quote(kind, safe=" ()+,")
        name = f"_{name}" if _DEVICE.match(name) else name
        if len(name) > _LONGEST_NAME or name.casefold() in taken:
            name = f"{name[:_LONGEST_NAME]}~{hashlib.sha256(kind.encode()).hexdigest()[:12]}"
        names[kind] = name
        taken.add(name.casefold())
    return names
