"""The signs of a block page, as the user declares them: on a handler, or in the settings."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from longshore.errors import ProcessingError, UsageError

_SIGNS = ("text", "title", "selector", "redirected_to", "shorter_than", "shorter_than_usual")


class BlockPage(msgspec.Struct, frozen=True, kw_only=True):
    """The signs of a block page. A page that has all signs of one `BlockPage` is a refusal, not a page."""

    text: str = ""
    """Text in the HTML of the page. Upper and lower case are the same, here and in the title."""
    title: str = ""
    """Text in the title of the page."""
    selector: str = ""
    """A CSS selector that matches an element."""
    redirected_to: str = ""
    """Text in the URL that answered, if that is not the URL that was asked for."""
    shorter_than: int = 0
    """The page has fewer bytes than this."""
    shorter_than_usual: float = 0.0
    """The page is shorter than usual by this factor: than the median of the last pages of its host."""

    def __post_init__(self) -> None:
        if not any(getattr(self, sign) for sign in _SIGNS):
            raise UsageError(
                f"BlockPage() has no sign, so every page would be one. Give it one of: {', '.join(_SIGNS)}."
            )
        if self.shorter_than < 0:
            raise UsageError(f"BlockPage has shorter_than={self.shorter_than}. Give it a number of bytes.")
        if self.shorter_than_usual and not self.shorter_than_usual > 1:
            raise UsageError(f"BlockPage has shorter_than_usual={self.shorter_than_usual:g}. Give it a factor above 1.")
        if self.selector:
            _check_selector(self.selector)

    def __str__(self) -> str:
        return " and ".join(f"{sign}={value!r}" for sign in _SIGNS if (value := getattr(self, sign)))


def checked_block_pages(rules: Sequence[BlockPage]) -> tuple[BlockPage, ...]:
    """Return the rules. Raise `UsageError` if one is not a `BlockPage`."""
    for rule in (rules,) if isinstance(rules, BlockPage | str) else rules:
        if not isinstance(rule, BlockPage) or isinstance(rules, BlockPage):
            raise UsageError(f"Give it a list of BlockPage, such as [BlockPage(title='Robot Check')], not {rules!r}")
    return tuple(rules)


def parse_block_pages(text: str | None) -> tuple[BlockPage, ...]:
    """Return the block pages that a setting declares: `title=Robot Check; selector=#captcha; shorter_than=500`.

    Each part is a block page of its own, with one sign. Raises `UsageError`.
    """
    return tuple(_parsed(part) for part in (text or "").split(";") if part.strip())


def _parsed(part: str) -> BlockPage:
    name, equals, value = (word.strip() for word in part.partition("="))
    if not equals or name not in _SIGNS or not value:
        raise UsageError(
            f"block_pages has '{part.strip()}'. Give it SIGN=VALUE, several separated by semicolons; the signs are "
            f"{', '.join(_SIGNS)}."
        )
    if name in ("shorter_than", "shorter_than_usual"):
        try:
            return msgspec.convert({name: value}, BlockPage, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"block_pages has '{part.strip()}', and '{value}' is not a number that fits.") from error
    return msgspec.convert({name: value}, BlockPage)


def _check_selector(selector: str) -> None:
    from longshore.scrape.html.parse import parse
    from longshore.scrape.html.select import select

    try:
        select(parse(""), selector)
    except ProcessingError as error:
        raise UsageError(f"BlockPage has selector={selector!r}, which is not a CSS selector.") from error
