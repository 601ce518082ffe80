"""The labels of the graph, their properties, and which relations may be between which nodes."""

from __future__ import annotations

from dataclasses import dataclass

TEXT, NUMBER = "STRING", "DOUBLE"
NODES: dict[str, dict[str, str]] = {
    "Company": {"name": TEXT, "cik": TEXT, "sic": TEXT, "state": TEXT},
    "Person": {"name": TEXT, "cik": TEXT},
    "Filing": {"form": TEXT, "filed": TEXT, "period": TEXT, "url": TEXT},
    "Event": {"item": TEXT, "title": TEXT, "day": TEXT, "source": TEXT},
}
"""Each has an `id`, too, which is unique. Days are text, as 2010-03-31."""


@dataclass(frozen=True)
class RelationType:
    """A type of relation."""

    ends: tuple[tuple[str, str], ...]
    """From which labels to which ones it may lead."""
    properties: dict[str, str]
    """Each has a `key` and a `source`, too: the number of the filing that says so."""


_VALIDITY = {"valid_from": TEXT, "valid_to": TEXT}
_SHARES = {"detail": TEXT, "shares": NUMBER, "percent": NUMBER, "price": NUMBER, **_VALIDITY}
_OWNERS = (("Person", "Company"), ("Company", "Company"))
RELATIONS: dict[str, RelationType] = {
    "FILED": RelationType((("Company", "Filing"),), {}),
    "MENTIONED_IN": RelationType((("Company", "Filing"), ("Person", "Filing")), {"part": TEXT}),
    "HAPPENED_AT": RelationType((("Event", "Company"),), {}),
    "HAS_ROLE": RelationType((("Person", "Company"),), {"title": TEXT, "action": TEXT, "as_of": TEXT, **_VALIDITY}),
    "OWNS": RelationType(_OWNERS, _SHARES),
    "ACQUIRED_SHARES": RelationType(_OWNERS, _SHARES),
    "DISPOSED_OF_SHARES": RelationType(_OWNERS, _SHARES),
    "ACQUIRED": RelationType((("Company", "Company"),), _SHARES),
    "AGREEMENT": RelationType((("Company", "Company"),), _SHARES),
    "AUDITOR": RelationType((("Company", "Company"),), _SHARES),
    "SUBSIDIARY": RelationType((("Company", "Company"),), _SHARES),
    "HELD": RelationType((("Person", "Company"),), {"title": TEXT, **_VALIDITY}),
}
"""`HAS_ROLE` is what one filing says. `HELD` joins what all of them say; it is made again with every merge."""
