"""URLs that were named one by one, on the command line or in Python."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NoReturn

from longshore.errors import InputFileError
from longshore.runs.submit.input_files import InputEntry, check_url


class UrlList:
    """A list of URLs, each of which is a job."""

    rereadable = True
    name = "the given URLs"

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = tuple(urls)

    @property
    def fingerprint(self) -> str:
        """The same for the same URLs in any order."""
        return hashlib.sha256("\n".join(sorted(self._urls)).encode(errors="surrogatepass")).hexdigest()

    def entries(self) -> Iterator[InputEntry]:
        """Yield the job of each URL. Raise `InputFileError` for the first that is no URL."""
        for url in self._urls:
            try:
                yield InputEntry(payload={"url": check_url(url)})
            except ValueError as error:
                raise InputFileError(str(error)) from error

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for a list without URLs."""
        raise InputFileError("There are no URLs. Name at least one.")
