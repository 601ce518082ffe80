"""Round-robin over hosts: each open queue goes through the hosts in a fixed order, a few with each claim.

The order is that of the folders, so the next host is found by listing one shard, whatever the number of hosts.
Turns are neither shared nor stored. Every open queue starts at a random position, or processes that claim once and
close would all take jobs of the same few hosts.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from longshore.media.directory.files import listing
from longshore.media.directory.files.layout import shard_of
from longshore.media.directory.journal.journal import Journal


class HostTurn(NamedTuple):
    """A position in the order of hosts."""

    shard: str
    host: str

    @classmethod
    def of(cls, host: str) -> HostTurn:
        """Return the position of a host (as returned by `layout.host_of`)."""
        return cls(shard_of(host), host)

    @classmethod
    def random(cls) -> HostTurn:
        """Return a random position."""
        return cls(secrets.token_hex(1), "")


def hosts_after(
    journal: Journal, lanes: Sequence[str], priority: int, last: HostTurn
) -> Iterator[tuple[str, list[str]]]:
    """Yield each host with ready jobs of this priority once, with its lanes; starts after `last` and wraps around.

    A host may turn out to have no jobs. Shards are listed lazily.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for lane in lanes:
        for shard in listing.shards(journal, lane, priority):
            groups[shard].append(lane)
    order = sorted(groups)
    for shard in [each for each in order if each >= last.shard]:
        yield from _of_group(journal, groups[shard], priority, shard, last, behind=True)
    for shard in [each for each in order if each <= last.shard]:
        yield from _of_group(journal, groups[shard], priority, shard, last, behind=False)


def _of_group(
    journal: Journal, lanes: Sequence[str], priority: int, shard: str, last: HostTurn, *, behind: bool
) -> Iterator[tuple[str, list[str]]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for lane in lanes:
        for host in listing.hosts(journal, lane, priority, shard):
            found[host].append(lane)
    for host in sorted(found):
        if (HostTurn(shard, host) > last) is behind:
            yield host, found[host]
