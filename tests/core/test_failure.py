"""What is kept of an error can always be stored."""

from __future__ import annotations

import msgspec

from longshore.errors import Failure


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_be_shown_is_named_all_the_same() -> None:
    failure = Failure.of(SpeechlessError())
    assert failure.message == "SpeechlessError (it cannot be shown: its __str__ raised RuntimeError)"


def test_text_that_is_no_unicode_is_kept_escaped() -> None:
    failure = Failure.of(ValueError("cannot read caf\udce9.pdf"))
    assert failure.message == "cannot read caf\\udce9.pdf"
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure


def test_a_message_without_end_is_cut() -> None:
    failure = Failure.of(ValueError("x" * 1_000_000))
    assert len(failure.message) < 20_000
    assert len(failure.traceback) < 60_000
