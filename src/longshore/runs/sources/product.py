"""A job for every combination of values: states × cities × categories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from longshore.errors import InputFileError, LongshoreError, UsageError
from longshore.runs.sources.template import Shape
from longshore.runs.submit.input_files import InputEntry
from longshore.stored import Json, JsonObject

Chosen = Mapping[str, Json]
"""The values chosen for the preceding dimensions."""
Dimension = Iterable[Json] | Mapping[Json, Iterable[Json]] | Callable[[Chosen], Iterable[Json]]
"""The values of a dimension; or, if they depend on the preceding dimensions, a function of all preceding values, or a
mapping from the value of the dimension just before."""


@dataclass(frozen=True)
class Product:
    """A job for every combination of the values of its dimensions; the last changes fastest. See `product`."""

    dimensions: Mapping[str, Dimension]
    shape: Shape = field(default_factory=Shape)

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise UsageError("A product needs at least one dimension: product(state=[…], category=[…]).")
        for name, values in self.dimensions.items():
            if isinstance(values, str) or not (callable(values) or isinstance(values, Iterable)):
                raise UsageError(f"The dimension '{name}' of a product must be a list of values, not {values!r}.")
            if isinstance(values, Iterator):
                # An iterator is empty the second time, and jobs would be missing silently.
                raise UsageError(f"The dimension '{name}' of a product can be read only once. Make a list of it.")

    @property
    def name(self) -> str:
        """Name of the source, for messages."""
        return " × ".join(self.dimensions)

    @property
    def rereadable(self) -> bool:
        """True: it makes the same jobs again, and checking finds a wrong template before anything is submitted."""
        return True

    def entries(self) -> Iterator[InputEntry]:
        """Yield every combination. Raise `InputFileError` for one that cannot be a job."""
        for row in _combinations(list(self.dimensions.items()), {}):
            try:
                yield self.shape.entry(row)
            except ValueError as error:
                raise InputFileError(f"{self.name}, {row}: {error}") from error

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for an empty dimension."""
        raise InputFileError(f"There are no jobs in {self.name}: one of them has no values.")


def product(
    *, url: str | None = None, key: str | None = None, partition: str | None = None, **dimensions: Dimension
) -> Product:
    """Return a source with a job for every combination; the dimensions are the fields of the payload.

    `url`, `key` and `partition` are templates.

    `product(state=["TX", "CA"], city={"TX": ["Austin"], "CA": ["Fresno"]}, category=["cafe"], partition="{state}")`
    """
    return Product(dimensions, Shape(url, key, partition))


def _combinations(dimensions: list[tuple[str, Dimension]], chosen: JsonObject) -> Iterator[JsonObject]:
    if not dimensions:
        yield dict(chosen)
        return
    (name, values), rest = dimensions[0], dimensions[1:]
    for value in _listed(name, values, chosen):
        yield from _combinations(rest, {**chosen, name: value})


def _listed(name: str, values: Dimension, chosen: Chosen) -> Iterator[Json]:
    """Yield the values of a dimension. It may be user code: raise any exception of it as `InputFileError`."""
    try:
        yield from _values(name, values, chosen)
    except LongshoreError:
        raise
    except (Exception, SystemExit) as error:
        raise InputFileError(
            f"The dimension '{name}' of a product failed: {type(error).__name__}: {error}. Correct it."
        ) from error


def _values(name: str, values: Dimension, chosen: Chosen) -> Iterable[Json]:
    if isinstance(values, Mapping):
        before = next(reversed(list(chosen.items())), None)
        if before is None:
            raise InputFileError(f"The dimension '{name}' of a product comes first and cannot depend on another.")
        if before[1] not in values:
            raise InputFileError(f"The dimension '{name}' of a product has no values for {before[0]} '{before[1]}'.")
        return values[before[1]]
    return values(chosen) if callable(values) else values
