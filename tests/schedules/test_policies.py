"""A schedule and the policies of a row, as one text."""

from datetime import timedelta
from typing import Any

import pytest

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import Every
from django_tasks.schedules.policies import as_plan

HALF = Every(minutes=30)


@pytest.mark.parametrize(
    ("text", "given", "printed"),
    [
        ("every 30m", {}, "every 30m"),
        ("every 30m | grace 10m", {"misfire_grace_time": 600.0}, "every 30m | grace 10m"),
        ("every 30m|Grace 90 seconds", {"misfire_grace_time": 90.0}, "every 30m | grace 1m30s"),
        ("every 30m | late fail", {"on_misfire": "fail"}, "every 30m | late fail"),
        ("every 30m | each", {"coalesce": False}, "every 30m | each"),
        ("every 30m | coalesce", {"coalesce": True}, "every 30m | coalesce"),
        ("every 30m | catch  up 3", {"coalesce": False, "catch_up": 3}, "every 30m | catch up 3"),
        ("every 30m | timeout 90s", {"timeout": 90.0}, "every 30m | timeout 1m30s"),
        ("every 30m | Attempts 3", {"max_attempts": 3}, "every 30m | attempts 3"),
        (
            "every 30m | each | late skip | grace 0s",
            {"coalesce": False, "on_misfire": "skip", "misfire_grace_time": 0.0},
            "every 30m | grace 0s | late skip | each",
        ),
    ],
)
def test_a_text_says_when_and_what_differs(text: str, given: dict[str, Any], printed: str) -> None:
    plan = as_plan(text)
    assert (plan.schedule, plan.options.given(), str(plan)) == (HALF, given, printed)
    assert as_plan(printed) == plan


@pytest.mark.parametrize("value", [HALF, timedelta(minutes=30), "every 30m"], ids=repr)
def test_whatever_may_be_a_schedule_is_a_plan(value: Any) -> None:
    assert as_plan(value).schedule == HALF


@pytest.mark.parametrize(
    "clause",
    [
        *("", "grace", "grace soon", "grace 5", "late", "late never", "catch up 0", "catch up"),
        *("timeout", "timeout 5", "timeout never", "attempts", "attempts 0", "attempts many"),
    ],
)
def test_what_says_nothing_is_refused(clause: str) -> None:
    with pytest.raises(TaskValueError, match="schedule has behind its"):
        as_plan(f"every 30m | {clause}")


@pytest.mark.parametrize(
    ("clauses", "both"),
    [
        ("grace 10m | grace 20m", "'grace 10m' and 'grace 20m'"),
        ("Grace  10m | grace 10m", "'grace 10m' and 'grace 10m'"),
        ("late run | late skip", "'late run' and 'late skip'"),
        ("timeout 1m | each | timeout 2m", "'timeout 1m' and 'timeout 2m'"),
        ("attempts 3 | attempts 4", "'attempts 3' and 'attempts 4'"),
        ("coalesce | each", "'coalesce' and 'each'"),
        ("each | catch up 3", "'each' and 'catch up 3'"),
        ("catch up 3 | grace 1m | coalesce", "'catch up 3' and 'coalesce'"),
    ],
)
def test_two_that_contradict_each_other_are_refused(clauses: str, both: str) -> None:
    with pytest.raises(TaskValueError) as caught:
        as_plan(f"every 30m | {clauses}")
    assert caught.value.field == "schedule"
    assert caught.value.problem == f"says both {both}, and only one can hold"


def test_so_is_what_is_no_schedule_at_all() -> None:
    with pytest.raises(TaskTypeError):
        as_plan(7)
