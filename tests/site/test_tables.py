"""Calls in tables are such as Python and the functions themselves take."""

from pathlib import Path

import pytest

from tests.site.pages import name_of, paths
from tests.site.tables import complaints

TABLE = """
Words
=====

.. list-table::

   * - ``{other}``
     - so: ``{ours}``
"""


# Two pages are nothing but files of the checkout. Once Sphinx has made the site in this process, it
# has put its own directive in the place of the one that includes them.
PAGES = [path for path in paths() if ".. include::" not in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_call_in_a_table_can_be_made(path: Path) -> None:
    found = complaints(path)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("other", "ours", "problem"),
    [
        ("x", 'pause_tasks(code="report")', "pause_tasks() takes no code"),
        ("x", "cancel_tasks(code=…)", "cancel_tasks() takes no code"),
        ("x", 'add_task(Task(biz_code="a", number=1))', "Task() takes no number"),
        ("x", "update_task(code, number, delay=3)", "update_task() takes no delay"),
        ("x", "@task_handler(code, sched=…)", "task_handler() takes no sched"),
        ("x", "start(thread=2)", "start() takes no thread"),
        ("x", "Every(minute=3)", "Every() takes no minute"),
        ("x", "Cron.from_apscheduler(text, zone=…)", "Cron.from_apscheduler() takes no zone"),
        ("x", "raise RetryLater(timedelta(minutes=5)", "is no Python"),
        ("beat(", "nothing(", "is no Python"),
    ],
)
def test_a_call_that_cannot_be_made_is_found(
    tmp_path: Path, other: str, ours: str, problem: str
) -> None:
    page = tmp_path / "page.rst"
    page.write_text(TABLE.format(other=other, ours=ours), encoding="utf-8")
    assert complaints(page)[-1] == f"{page}: “{ours}”: {problem}"


@pytest.mark.parametrize(
    "ours",
    [
        'pause_tasks(biz_code="report")',
        "cancel_tasks(queue=…)",
        "update_task(code, num, …)",
        "@task_handler(code, schedule=…)",
        "get_biz_code(self)",
        "when=timedelta(0)",
        "Every(weeks=2, at=…, jitter=…)",
    ],
)
def test_a_call_that_can_be_made_is_left_alone(tmp_path: Path, ours: str) -> None:
    page = tmp_path / "page.rst"
    page.write_text(TABLE.format(other="job.delay(countdown=3)", ours=ours), encoding="utf-8")
    assert complaints(page) == []
