"""The rules to copy, and the table of the manual: they name what the collector really gives."""

import re
from pathlib import Path
from shutil import which
from subprocess import run
from typing import Any

import pytest
import yaml

from django_tasks.metrics.catalogue import ENTRIES
from django_tasks.metrics.collector import OF_RUNS

DOCS = Path(__file__).resolve().parents[2] / "docs"
LABELS = {entry.shown: {"database", *entry.labels} for entry in ENTRIES}
# Prometheus' own, and those that it adds to every sample: of pods the name as a rule, too.
OWN = {"up": {"job", "instance"}}
TARGET = {"job", "instance", "pod"}
VALUES = {"outcome": set(OF_RUNS), "state": {"working", "quiet", "silent"}}
SUFFIXES = ("_bucket", "_sum", "_count")

_SELECTOR = re.compile(r"\b((?:django_tasks_\w+)|up\b)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DOCS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def faults(expression: str) -> list[str]:
    """The names in an expression that nobody gives: metrics, labels, values of labels."""
    found, known = [], set(TARGET)
    for name, matchers in _SELECTOR.findall(expression):
        base = next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)
        labels = LABELS.get(name) or LABELS.get(base) or OWN.get(name)
        if labels is None:
            found.append(name)
            continue
        known |= labels
        for label, _, value in _MATCHER.findall(matchers):
            if label not in labels | TARGET | ({"le"} if name.endswith("_bucket") else set()):
                found.append(f"{name}{{{label}}}")
            unknown = set(value.split("|")) - VALUES.get(label, set(value.split("|")))
            found += [f"{label}={each}" for each in unknown]
    for names in _GROUPING.findall(expression):
        grouped = {name.strip() for name in names.split(",")}
        found += sorted(grouped - known - {"le"})
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_names_what_the_collector_gives(rule: dict[str, Any]) -> None:
    assert not faults(rule["expr"])
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert {"summary", "description"} == set(rule["annotations"])
    shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    known = {label for name, _ in _SELECTOR.findall(rule["expr"]) for label in LABELS.get(name, ())}
    assert shown <= known | TARGET


def test_each_rule_is_seen_to_fire() -> None:
    """By promtool where it is installed; everywhere the file for it names what there is."""
    path = Path(__file__).with_name("alerts.test.yml")
    if promtool := which("promtool"):
        run([promtool, "test", "rules", path.name], cwd=path.parent, check=True, timeout=60)
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
    looks = [look for group in groups for look in group["alert_rule_test"]]
    fired = {look["alertname"] for look in looks if look.get("exp_alerts")}
    assert fired == {rule["alert"] for rule in rules()}
    for group in groups:
        for series in group["input_series"]:
            assert not faults(series["series"]), series


def test_the_rules_have_names_of_their_own() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("DjangoTasks") for name in names)


@pytest.mark.parametrize(
    "expression",
    [
        "django_tasks_nothing > 0",
        "django_tasks_runs > 0",
        'django_tasks_workers{code="x"} > 0',
        'django_tasks_workers{state="alive"} > 0',
        'django_tasks_runs_total{outcome=~"failed|broken"} > 0',
        "sum by (queue) (django_tasks_due)",
    ],
)
def test_a_name_that_nobody_gives_is_found(expression: str) -> None:
    assert faults(expression)


def manual() -> str:
    return (DOCS / "how-to" / "monitor.rst").read_text(encoding="utf-8")


def test_the_table_of_the_manual_has_every_metric_with_its_labels() -> None:
    rows = re.findall(
        r"^   \* - ``(django_tasks_\w+)``\n     - (\w+)\n     - (.*)$", manual(), re.M
    )
    told = {name: (kind, set(re.findall(r"``(\w+)``", labels))) for name, kind, labels in rows}
    given = {entry.shown: (entry.kind, set(entry.labels)) for entry in ENTRIES}
    assert told == given
    assert [name for name, _, _ in rows] == [entry.shown for entry in ENTRIES]


def test_the_queries_of_the_manual_name_what_the_collector_gives() -> None:
    blocks = re.findall(r"^\.\. code-block:: promql\n\n((?:    .*\n|\n)+)", manual(), re.M)
    assert blocks
    for block in blocks:
        assert not faults(block), block
