"""Whose turn it is: hosts in a fixed order, round and round, each opening of the queue from where it stopped.

The order is that of the folders, so the next host is found by listing the group it is in, whatever the number of hosts;
and nothing about turns is shared or written. Every opening begins at a place of its own, or those that claim once and
close would all serve the same few.
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
    """A place in the order of hosts."""

    shard: str
    host: str

    @classmethod
    def of(cls, host: str) -> HostTurn:
        """That of a host, as `layout.host_of` says it."""
        return cls(shard_of(host), host)

    @classmethod
    def any(cls) -> HostTurn:
        """One by chance."""
        return cls(secrets.token_hex(1), "")


def after(journal: Journal, lanes: Sequence[str], priority: int, last: HostTurn) -> Iterator[tuple[str, list[str]]]:
    """The hosts with ready jobs of this priority, those behind `last` first, once round; each with the lanes it is in.

    A host may turn out to have nothing. Lists no more groups of hosts than are asked for.
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
