"""Metrics in the text format, read back by the library's own parser (D8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from longshore.errors import SettingsError
from longshore.observe import metrics as module
from longshore.observe.histogram import Histogram
from longshore.observe.metrics import Metrics, check_metrics_installed

BOUNDS = (1.0, 10.0)


def read(metrics: Metrics) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The samples by name and labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_a_histogram_counts_every_duration_once() -> None:
    counted = Histogram.of(BOUNDS)
    for seconds in (0.5, 1.0, 5.0, 11.0):
        counted.add(BOUNDS, seconds)
    assert counted.buckets == [2, 1, 1]
    assert counted.total == 17.5
    assert counted.plus(counted).buckets == [4, 2, 2]


def test_its_buckets_are_cumulative_in_the_text_format() -> None:
    counted, metrics = Histogram.of(BOUNDS), Metrics()
    for seconds in (0.5, 5.0, 11.0):
        counted.add(BOUNDS, seconds)
    metrics.histogram("took_seconds", "How long.", BOUNDS, counted)
    found = read(metrics)
    assert found["longshore_took_seconds_bucket"] == {
        (("le", "1.0"),): 1,
        (("le", "10.0"),): 2,
        (("le", "+Inf"),): 3,
    }
    assert found["longshore_took_seconds_count"] == {(): 3}
    assert found["longshore_took_seconds_sum"] == {(): 16.5}


def test_counters_and_gauges_have_their_labels() -> None:
    metrics = Metrics()
    metrics.counters("attempts", "Attempts.", [({"outcome": "completed"}, 2), ({"outcome": "failed"}, 1)])
    metrics.gauge("held", "Held.", 3)
    metrics.gauges("nothing", "No samples.", [])
    found = read(metrics)
    assert found["longshore_attempts_total"] == {(("outcome", "completed"),): 2, (("outcome", "failed"),): 1}
    assert found["longshore_held"] == {(): 3}
    assert "longshore_nothing" not in found


def test_a_label_with_quotes_and_line_breaks_stays_one_sample() -> None:
    metrics = Metrics()
    metrics.gauges("host", "Hosts.", [({"host": 'a"b\\c\nd'}, 1)])
    assert read(metrics)["longshore_host"] == {(("host", 'a"b\\c\nd'),): 1}


def test_every_process_tells_its_version_and_its_disk(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.add_process("worker", tmp_path / "not" / "made" / "yet")
    found = read(metrics)
    assert dict(next(iter(found["longshore_build_info"])))["process"] == "worker"
    assert 0 < found["longshore_disk_free_bytes"][()] <= found["longshore_disk_total_bytes"][()]


def test_without_the_library_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        assert name == "prometheus_client"

    monkeypatch.setattr(module, "find_spec", nothing)
    with pytest.raises(SettingsError, match=r"pip install 'longshore\[metrics\]'"):
        check_metrics_installed()
