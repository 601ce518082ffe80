"""`longshore.retry`: again within one attempt. No test waits: stamina is in its testing mode, or the sleep is noted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stamina

from longshore import ProcessingError, ValidationError, retry


@pytest.fixture(autouse=True)
def _no_waits() -> Iterator[None]:
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


class Flaky:
    def __init__(self, error: Exception, failures: int) -> None:
        self.error = error
        self.failures = failures
        self.calls = 0

    def fetch(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return "done"


@pytest.mark.ledger("E8")
def test_a_function_is_called_again_until_it_succeeds() -> None:
    flaky = Flaky(OSError("x"), failures=2)
    assert retry(max_attempts=3)(flaky.fetch)() == "done"
    assert flaky.calls == 3


def test_the_last_error_is_raised_as_it_is() -> None:
    flaky = Flaky(OSError("still down"), failures=99)
    with pytest.raises(OSError, match="still down"):
        retry(max_attempts=4)(flaky.fetch)()
    assert flaky.calls == 4


def test_it_works_without_parentheses() -> None:
    flaky = Flaky(OSError("x"), failures=99)

    @retry
    def fetch() -> str:
        """Fetches."""
        return flaky.fetch()

    with pytest.raises(OSError, match="x"):
        fetch()
    assert flaky.calls == 3
    assert fetch.__doc__ == "Fetches."


@pytest.mark.ledger("E8")
async def test_it_works_on_async_functions() -> None:
    flaky = Flaky(OSError("x"), failures=1)

    @retry(max_attempts=2)
    async def fetch() -> str:
        return flaky.fetch()

    assert await fetch() == "done"
    assert flaky.calls == 2


def test_other_exceptions_are_not_retried() -> None:
    flaky = Flaky(KeyError("x"), failures=1)
    with pytest.raises(KeyError):
        retry(exceptions=(OSError,))(flaky.fetch)()
    assert flaky.calls == 1


@pytest.mark.parametrize("error", [ValidationError("x"), ProcessingError("x", retryable=False)])
def test_an_error_that_says_it_is_not_retryable_is_not_retried(error: Exception) -> None:
    flaky = Flaky(error, failures=1)
    with pytest.raises(type(error)):
        retry(flaky.fetch)()
    assert flaky.calls == 1


def test_no_attempts_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="from 1 up"):
        retry(max_attempts=0)


@pytest.mark.ledger("E8")
def test_the_waits_grow_by_the_factor_up_to_a_minute_with_chance_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waits.append)
    flaky = Flaky(OSError("x"), failures=99)
    with stamina.set_testing(False), pytest.raises(OSError, match="x"):
        retry(max_attempts=8, backoff_factor=3)(flaky.fetch)()
    assert len(waits) == 7
    for wait, least in zip(waits, [1, 3, 9, 27, 60, 60, 60], strict=True):
        assert least <= wait <= min(least + 1, 60)
    assert waits[0] != 1
