"""Why no worker takes a task: the same cause on its page, in the list and on the dashboard."""

from typing import Any

import pytest

from django_tasks.admin.standing import surroundings
from django_tasks.api import pause_tasks
from django_tasks.reads.overview import overview
from django_tasks.reads.why import why
from tests.factories import CODE, NOW, a_row, a_worker, later

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

# Problems of the dashboard that say why nobody takes a task.
CAUSES = {"no_worker", "nobody_works", "quiet", "no_queue", "no_handler"}

SITUATIONS: dict[str, tuple[list[dict[str, Any]], str, str, set[str]]] = {
    "none": ([], "no worker", "no worker", {"no_worker"}),
    "silent": ([{"heartbeat": later(-100)}], "no worker", "no worker", {"no_worker"}),
    "other queue": ([{"queues": ["mail"]}], "queue", "queue not served", {"no_queue"}),
    "other code": ([{"codes": ["mail"]}], "handler", "no handler", {"no_handler"}),
    "the code in another queue, the queue without the code": (
        [{"queues": ["mail"]}, {"codes": ["mail"]}],
        "handler",
        "no handler",
        {"no_handler"},
    ),
    "quiet": ([{"wish": "quiet"}], "quiet", "workers quiet", {"nobody_works", "quiet"}),
    "quiet, and others work": (
        [{"wish": "quiet"}, {"codes": ["mail"]}],
        "quiet",
        "workers quiet",
        {"quiet"},
    ),
    "quiet, and another one works": ([{"wish": "quiet"}, {}], "due", "", {"quiet"}),
    "an older release": ([{"version": "", "codes": []}], "due", "", set()),
    "works": ([{}], "due", "", set()),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_cause_is_the_same_everywhere(situation: str) -> None:
    workers, reason, mark, problems = SITUATIONS[situation]
    for number, fields in enumerate(workers):
        a_worker(f"w{number}", **({"version": "1.0", "codes": [CODE]} | fields))
    task = a_row(when=later(-5))
    assert why(task, using="default", now=NOW).kind == reason
    assert surroundings([task], named=True, using="default").of(task).nobody == mark
    found = overview(using="default").problems
    assert {problem.kind for problem in found} & CAUSES == problems


def test_what_is_not_due_or_paused_is_not_marked_for_want_of_workers() -> None:
    a_worker(version="1.0", codes=[CODE], wish="quiet")
    future, paused = a_row("1", when=later(60)), a_row("2", queue="held", when=later(-60))
    pause_tasks(queue="held")
    around = surroundings([future, paused], named=True, using="default")
    assert [around.of(task).nobody for task in (future, paused)] == ["", ""]
    assert [why(task, using="default", now=NOW).kind for task in (future, paused)] == [
        "future",
        "paused code",
    ]
