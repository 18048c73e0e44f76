"""Answers as the parsers of prometheus-client read them."""

from collections.abc import Iterator
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from django_tasks.metrics.collector import Using
from django_tasks.metrics.page import metrics_page

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Scrape:
    """One answer: its families by name, and its samples by name and labels."""

    def __init__(self, families: Iterator[Metric]) -> None:
        self.families = {family.name: family for family in families}
        self.samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in self.families.values():
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.samples, f"twice: {sample}"
                self.samples[key] = sample.value

    def get(self, name: str, **labels: str) -> float | None:
        wanted = {"database": "default"} | labels
        return self.samples.get((f"django_tasks_{name}", frozenset(wanted.items())))

    def labels(self, name: str, label: str) -> set[str]:
        """The values of a label that the samples of a name have."""
        return {
            dict(labels)[label] for key, labels in self.samples if key == f"django_tasks_{name}"
        }

    def of(self, database: str) -> set[str]:
        """The names of all samples of a database."""
        return {name for name, labels in self.samples if ("database", database) in labels}

    def counters(self) -> dict[Any, float]:
        """All that must never fall."""
        endings = ("_total", "_bucket", "_sum", "_count")
        return {key: value for key, value in self.samples.items() if key[0].endswith(endings)}


def scrape(using: Using = None) -> Scrape:
    """Ask in the text format."""
    body, content_type = metrics_page("", using)
    assert content_type.startswith("text/plain; version=")
    return Scrape(iter(text_string_to_metric_families(body.decode())))


def scrape_openmetrics(using: Using = None) -> Scrape:
    """Ask in the format OpenMetrics, whose parser is strict."""
    body, content_type = metrics_page(OPENMETRICS, using)
    assert content_type.startswith("application/openmetrics-text")
    return Scrape(iter(openmetrics.text_string_to_metric_families(body.decode())))


def assert_no_counter_fell(before: Scrape, after: Scrape) -> None:
    rest = after.counters()
    fallen = {key: value for key, value in before.counters().items() if rest.get(key, -1) < value}
    assert not fallen
