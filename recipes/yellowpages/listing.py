"""A business as a search found it, and the filter that accepts or rejects it."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Listing(BaseModel):
    """One business, found for one target. A field that the page does not have, or has malformed, is None."""

    listing_id: str = Field(min_length=1)
    name: str | None = None
    phone: str | None = None
    """As +12125550187."""
    street: str | None = None
    city: str | None = None
    state: str | None = None
    zip_code: str | None = None
    website: str | None = None
    rating: float | None = Field(default=None, ge=0, le=5)
    reviews: int | None = Field(default=None, ge=0)
    categories: list[str] = []
    closed: bool = False
    sponsored: bool = False
    searched_state: str
    searched_city: str
    searched_category: str


def keep(listing: Listing, kind: str) -> str | None:
    """Return why a listing is rejected; None accepts it. `longshore records RUN` counts the reasons."""
    del kind
    if listing.sponsored:
        return "an advertisement"
    if listing.name is None:
        return "no name"
    if listing.closed:
        return "closed for good"
    if listing.state not in (None, listing.searched_state):
        return "in another state"
    if not (listing.phone or listing.website or listing.street):
        return "no phone, website or street"
    return None
