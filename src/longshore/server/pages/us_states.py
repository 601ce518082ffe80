"""The states of the USA on a grid that resembles the map, for runs whose partitions are states."""

from __future__ import annotations

from collections.abc import Iterable

_ROWS = (
    "AK -- -- -- -- -- -- -- -- -- ME",
    "-- -- -- -- -- -- -- -- -- VT NH",
    "WA ID MT ND MN IL WI MI NY RI MA",
    "OR NV WY SD IA IN OH PA NJ CT --",
    "CA UT CO NE MO KY WV VA MD DE --",
    "-- AZ NM KS AR TN NC SC DC -- --",
    "-- -- -- OK LA MS AL GA -- -- --",
    "HI -- -- TX -- -- -- -- FL -- --",
)
GRID = tuple(tuple("" if code == "--" else code for code in row.split()) for row in _ROWS)
"""The codes of the states, row by row; empty for a gap."""
_NAMES = (
    "AL Alabama|AK Alaska|AZ Arizona|AR Arkansas|CA California|CO Colorado|CT Connecticut|DE Delaware|"
    "DC District of Columbia|FL Florida|GA Georgia|HI Hawaii|ID Idaho|IL Illinois|IN Indiana|IA Iowa|KS Kansas|"
    "KY Kentucky|LA Louisiana|ME Maine|MD Maryland|MA Massachusetts|MI Michigan|MN Minnesota|MS Mississippi|"
    "MO Missouri|MT Montana|NE Nebraska|NV Nevada|NH New Hampshire|NJ New Jersey|NM New Mexico|NY New York|"
    "NC North Carolina|ND North Dakota|OH Ohio|OK Oklahoma|OR Oregon|PA Pennsylvania|RI Rhode Island|"
    "SC South Carolina|SD South Dakota|TN Tennessee|TX Texas|UT Utah|VT Vermont|VA Virginia|WA Washington|"
    "WV West Virginia|WI Wisconsin|WY Wyoming"
)
STATES = {code: name for code, _, name in (each.partition(" ") for each in _NAMES.split("|"))}
_CODES = {name.lower(): code for code, name in STATES.items()} | {code.lower(): code for code in STATES}
_FEWEST = 5


def code_of(partition: str) -> str | None:
    """Return the code of the state that a partition is named after: `NV`, `nv`, `Nevada`, `new_york`."""
    return _CODES.get(partition.strip().lower().replace("_", " ").replace("-", " "))


def are_states(partitions: Iterable[str]) -> bool:
    """Return whether all partitions are states, each another one, and enough of them for a map."""
    codes = [code_of(partition) for partition in partitions if partition]
    return len(codes) >= _FEWEST and None not in codes and len(set(codes)) == len(codes)


def state_name(label: str) -> str:
    """Return the name of a state, for a reader who does not know its code."""
    return STATES.get(label, label)
