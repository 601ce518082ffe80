"""The live pages: which topic each shows, of which parts it is made, and with which values they are rendered.

A part is rendered once for each snapshot and each set of rights, however many people look at it. Viewers are sent only
the parts that changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from litestar.di import NamedDependency

from longshore.server.auth.access import Access
from longshore.server.live.live_reader import LiveReader, TopicSnapshot, WatchedTopic
from longshore.server.live.proxy_rest import ProxyRest
from longshore.server.live.topics import open_topic, topic_name
from longshore.server.pages.contexts import overview_context, run_context
from longshore.server.pages.job_context import job_context
from longshore.server.pages.record_figures import RecordFigures
from longshore.server.pages.render import Rights, part
from longshore.server.served import Served

PARTS = {
    "overview": ("needs", "totals", "runs"),
    "failures": ("needs", "failures"),
    "hosts": ("needs", "hosts"),
    "workers": ("needs", "workers"),
    "run": ("needs", "headline", "chart", "failures", "partitions", "hosts", "workers"),
    "job": ("job",),
}
"""The parts of each page that change by themselves. Each is the content of the element with its name as id."""


class ViewName(msgspec.Struct, frozen=True, kw_only=True):
    """A live page with its parameters."""

    page: str
    run: str | None = None
    job: str | None = None
    text: str = ""
    number: int = 1


class _Key(msgspec.Struct, frozen=True):
    view: ViewName
    runs: tuple[str, ...] | None
    kinds: tuple[str, ...] | None
    submit: bool
    admin: bool


class LiveView:
    """One live page as people with the same rights see it."""

    def __init__(self, name: ViewName, topic: WatchedTopic, rights: Rights, proxies: ProxyRest) -> None:
        self.name = name
        self.topic = topic
        self._rights = rights
        self._proxies = proxies
        self._number = 0
        self._parts: dict[str, str] = {}
        self._changed: dict[str, int] = {}
        """The number of the snapshot with which each part last changed."""

    def context(self, snapshot: TopicSnapshot) -> dict[str, Any]:
        """Return the values for the templates."""
        name = self.name
        if name.run is not None:
            found = run_context(snapshot, name.run)
        elif name.job is not None:
            found = job_context(snapshot)
        else:
            found = overview_context(snapshot, name.text, name.number, self._proxies.words())
        return found | {"rights": self._rights}

    def changed_since(self, number: int) -> tuple[int, dict[str, str]]:
        """Return the number of the last snapshot, and the parts that changed after the snapshot `number`."""
        snapshot = self.topic.last
        if snapshot is None:
            return number, {}
        if snapshot.number != self._number:
            self._render(snapshot)
        return self._number, {name: self._parts[name] for name, at in self._changed.items() if at > number}

    def _render(self, snapshot: TopicSnapshot) -> None:
        context = self.context(snapshot)
        for name in PARTS[self.name.page]:
            html = part(name, context)
            if self._parts.get(name) != html:
                self._parts[name], self._changed[name] = html, snapshot.number
        self._number = snapshot.number


class LiveViews:
    """All live pages that are open."""

    def __init__(self, served: Served, reader: LiveReader) -> None:
        self._served = served
        self._reader = reader
        self._proxies = ProxyRest(served.traces.data_folder / "proxies", served.clock)
        self._open: dict[_Key, tuple[LiveView, int]] = {}

    def topic(self, name: ViewName, access: Access) -> WatchedTopic:
        """Return the topic of a page, as far as this access reaches."""
        topic = topic_name(access, run=name.run, job=name.job)
        served = self._served
        return self._reader.topic(topic, lambda: open_topic(topic, served.queue, access, served.clock))

    def new(self, name: ViewName, access: Access) -> LiveView:
        """Return a view of its own, for one page."""
        return LiveView(name, self.topic(name, access), Rights(access), self._proxies)

    def take(self, name: ViewName, access: Access) -> tuple[LiveView, Callable[[], None]]:
        """Return the view that all people with these rights share, and the function to call when one leaves."""
        rights = Rights(access)
        key = _Key(name, access.key.runs, access.key.kinds, rights.submit, rights.admin)
        view, users = self._open.get(key) or (self.new(name, access), 0)
        self._open[key] = (view, users + 1)

        def leave() -> None:
            found, left = self._open[key]
            if left > 1:
                self._open[key] = (found, left - 1)
            else:
                del self._open[key]

        return view, leave


@dataclass(frozen=True)
class Live:
    """The live parts of the pages."""

    reader: LiveReader
    views: LiveViews
    served: Served
    records: RecordFigures


LiveParts: TypeAlias = NamedDependency[Live]
