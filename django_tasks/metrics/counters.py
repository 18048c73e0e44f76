"""The samples of what has run, by code: counters and histograms, from the counted minutes."""

from collections.abc import Iterable, Mapping

from django_tasks.metrics.catalogue import DURATION, LATENESS, RUNS, SKIPPED
from django_tasks.metrics.families import Samples
from django_tasks.metrics.labels import Labels
from django_tasks.values.figures import NO_FIGURES, OUTCOMES, Figures, Histogram

# A time that was skipped is no run.
OF_RUNS = tuple(outcome for outcome in OUTCOMES if outcome != "skipped")


def write(totals: Mapping[str, Figures], labels: Labels, samples: Samples) -> None:
    """Write a sample of each label, 0 where nothing has run: a first failure is a rise then."""
    for code, figures in _by_label(totals, labels).items():
        for outcome in OF_RUNS:
            samples.add(RUNS, figures.outcomes[outcome], code, outcome)
        samples.add(SKIPPED, figures.outcomes["skipped"], code)
        samples.add_histogram(LATENESS, figures.late, code)
        samples.add_histogram(DURATION, figures.took, code)


def _by_label(totals: Mapping[str, Figures], labels: Labels) -> dict[str, Figures]:
    found = dict.fromkeys(labels.all(), NO_FIGURES)
    for code, figures in totals.items():
        label = labels(code)
        before = found[label]
        found[label] = figures if before is NO_FIGURES else _together(before, figures)
    return found


def _together(one: Figures, other: Figures) -> Figures:
    outcomes = {name: count + other.outcomes[name] for name, count in one.outcomes.items()}
    return Figures(outcomes, _sum((one.late, other.late)), _sum((one.took, other.took)))


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    bounds, counts, sums = zip(*histograms, strict=True)
    return Histogram(bounds[0], tuple(map(sum, zip(*counts, strict=True))), sum(sums))
