"""The metrics of a process in the text format of Prometheus.

Each scrape builds all samples from what the process knows. Nothing is registered for the life of the process, so
there are no files to share between processes, and no series outlives what it describes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from longshore.errors import SettingsError
from longshore.observe.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels: TypeAlias = Mapping[str, str]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "longshore_"


def check_metrics_installed() -> None:
    """Raise `SettingsError` if the library that writes the format is not installed."""
    if find_spec("prometheus_client") is None:
        raise SettingsError("Metrics need the extra `metrics`. Fix: pip install 'longshore[metrics]'.")


class Metrics:
    """The samples of one scrape. The name of a metric is given without `longshore_` and without `_total`."""

    def __init__(self) -> None:
        self._families: list[Metric] = []

    def gauge(self, name: str, meaning: str, value: float) -> None:
        """Add a gauge without labels."""
        self.gauges(name, meaning, [({}, value)])

    def gauges(self, name: str, meaning: str, samples: Sequence[tuple[Labels, float]]) -> None:
        """Add the samples of a gauge. All have the same labels; without samples, nothing is added."""
        from prometheus_client.core import GaugeMetricFamily

        if samples:
            family = GaugeMetricFamily(PREFIX + name, meaning, labels=list(samples[0][0]))
            for labels, value in samples:
                family.add_metric(list(labels.values()), value)
            self._families.append(family)

    def counter(self, name: str, meaning: str, value: float) -> None:
        """Add a counter without labels."""
        self.counters(name, meaning, [({}, value)])

    def counters(self, name: str, meaning: str, samples: Sequence[tuple[Labels, float]]) -> None:
        """Add the samples of a counter, as `gauges`."""
        from prometheus_client.core import CounterMetricFamily

        if samples:
            family = CounterMetricFamily(PREFIX + name, meaning, labels=list(samples[0][0]))
            for labels, value in samples:
                family.add_metric(list(labels.values()), value)
            self._families.append(family)

    def histogram(self, name: str, meaning: str, bounds: Sequence[float], counted: Histogram) -> None:
        """Add a histogram without labels."""
        from prometheus_client.core import HistogramMetricFamily

        running, buckets = 0, []
        for bound, number in zip([*map(str, bounds), "+Inf"], counted.buckets, strict=True):
            running += number
            buckets.append((bound, running))
        self._families.append(HistogramMetricFamily(PREFIX + name, meaning, buckets, counted.total))

    def add_process(self, process: str, folder: Path) -> None:
        """Add what every process has: its version, and the disk under its data folder."""
        self.gauges("build_info", "The version.", [({"version": version("longshore"), "process": process}, 1)])
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        try:
            disk = shutil.disk_usage(folder)
        except OSError:
            return  # a volume that does not answer has no figures
        self.gauge("disk_free_bytes", "Free space of the disk under the data folder.", disk.free)
        self.gauge("disk_total_bytes", "Size of the disk under the data folder.", disk.total)

    def text(self) -> bytes:
        """Return all samples in the text format, with those of the process itself where the system tells them."""
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the families, for the library."""
        yield from self._families
