"""The lists of filings of a quarter, as the replica serves them: in pages, in two layouts, some lines broken."""

from __future__ import annotations

from filings.replica.stories import Filing, filings

PER_PAGE = 8


def quarter(year: int, number: int) -> list[Filing]:
    """Return the filings of a quarter, in the order of the list."""
    return [each for each in filings() if each.filed.year == year and (each.filed.month + 2) // 3 == number]


def index_page(year: int, number: int, page: int) -> tuple[str, bool] | None:
    """Return a page of the list of a quarter, and whether another one follows; None if there is no such page."""
    found = quarter(year, number)
    first = (page - 1) * PER_PAGE
    if page < 1 or (first and first >= len(found)):
        return None
    # A page repeats the last line of the page before.
    shown = found[max(first - 1, 0) : first + PER_PAGE]
    in_columns = number % 2 == 0
    lines = ["Description:           Index of filings", "", _titles(in_columns=in_columns), "-" * 80]
    for filing in shown:
        lines.append(_line(filing, in_columns=in_columns))
        if filing.number % 5 == 0:
            # A form that no recipe reads, and a line without its end.
            lines.append(_line(filing, in_columns=in_columns).replace(filing.form, "424B3", 1))
        if filing.number % 11 == 0:
            lines.append(f"{filing.company.cik}|{filing.company.name}|8-K")
    return "\n".join(lines) + "\n", first + PER_PAGE < len(found)


def _titles(*, in_columns: bool) -> str:
    return (
        "Form Type   Company Name      CIK  Date Filed  File Name"
        if in_columns
        else "CIK|Company Name|Form Type|Date Filed|Filename"
    )


def _line(filing: Filing, *, in_columns: bool) -> str:
    company = filing.company
    cik = str(int(company.cik))
    if in_columns:
        return f"{filing.form:<12}{company.name:<62}{cik:<12}{filing.filed:%Y%m%d}    {filing.path}         "
    return f"{cik}|{company.name}|{filing.form}|{filing.filed.isoformat()}|{filing.path}"
