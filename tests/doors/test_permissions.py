"""The table of permissions on the admin's page: each permission alone allows what it says."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from django_tasks.models import Lock, Pause, Task
from django_tasks.values.status import Status
from tests.doors.conftest import Staff
from tests.doors.test_admin import LIST, NEW, text
from tests.doors.test_admin_security import ACTIONS, ADDRESSES, PERMISSIONS, stored
from tests.factories import a_row, a_run, a_worker, later

pytestmark = pytest.mark.usefixtures("now")

NAME = "web-1:4711"
PAGE = Path(__file__).parents[2] / "docs/how-to/admin.rst"
LOOK, RUN, PAUSE, CANCEL = "view_task", "run_task", "pause_task", "cancel_task"
# Whoever may save the form of a task sees it.
SEES = [{"view_task"}, {"change_task"}]
NEVER: list[set[str]] = []

Needs = list[set[str]]


def sees_and(*more: str) -> Needs:
    return [each | set(more) for each in SEES]


# What is seen: the end of an address, the longest that fits, and the sets of permissions that do.
VIEWS: dict[str, Needs] = {
    "task/": SEES,
    "task/add/": [{"add_task"}],
    "task/{pk}/delete/": [{"delete_task"}],
    **{f"task/{{pk}}/{step}/": sees_and(RUN) for step in ("run-now", "reschedule", "requeue")},
    **{f"task/{{pk}}/{step}/": sees_and(PAUSE) for step in ("pause", "resume")},
    "task/{pk}/cancel/": sees_and(CANCEL),
    **{f"{page}/": [{LOOK}] for page in ("dashboard", "codes", "pause")},
    "codes/limits/": [{LOOK, "operate_task"}],
    **{f"codes/{way}/": [{LOOK, PAUSE}] for way in ("pause", "resume")},
    **{f"pause/{way}/": [{LOOK, PAUSE}] for way in ("add", "{pk}/delete", "{pk}/resume")},
    **{f"{model}/": [{f"view_{model}"}] for model in ("taskrun", "workerrow", "lock")},
    **{
        f"{model}/{way}/": NEVER
        for model in ("taskrun", "workerrow", "lock")
        for way in ("add", "{pk}/delete")
    },
    "workerrow/{pk}/ask/stop/": [{"view_workerrow", "operate_task"}],
}
# The index of the app is for all who find something there.
INDEX: Needs = [*SEES, {"add_task"}, {"delete_task"}]
INDEX += [{"view_taskrun"}, {"view_workerrow"}, {"view_lock"}]


def needs_of(address: str) -> Needs:
    place = address.partition("django_tasks/")[2]
    if not place:
        return INDEX
    return VIEWS[max((each for each in VIEWS if place.startswith(each)), key=len)]


def allowed(needs: Needs, permissions: set[str]) -> bool:
    return any(each <= permissions for each in needs)


@pytest.fixture
def there(db: None) -> dict[str, int]:
    """The id of a row of each model, and of tasks in each state that a step is for."""
    worker = a_worker(NAME, host="web-1", pid=4711)
    a_worker("web-2:4712", heartbeat=later(-25))  # the dashboard has a problem with it
    found = {
        "waiting": a_row("w", schedule="every 1h").pk,
        "failed": a_row("f", status=Status.FAILED).pk,
        "paused": a_row("p", status=Status.PAUSED).pk,
        "running": a_row("r", status=Status.RUNNING, claimed_by=worker.pk).pk,
        "taskrun": a_run(biz_num="r", worker=NAME).pk,
        "workerrow": worker.pk,
        "pause": Pause.objects.create(queue="mail").pk,
        "paused code": Pause.objects.create(biz_code="refund").pk,
        "lock": Lock.objects.create(name="door", holder="somebody").pk,
    }
    return found | {"task": found["running"]} | dict.fromkeys(("app", "dashboard", "codes"), 0)


Deed = Callable[[Client, dict[str, int]], Any]


def post(name: str, row: str = "", /, **data: Any) -> Deed:
    """Send a form to an address, of a row if one is named."""

    def send(who: Client, there: dict[str, int]) -> Any:
        args = [there[row]] if row else []
        return who.post(reverse(f"admin:django_tasks_{name}", args=args), data)

    return send


def step(name: str, row: str, **data: Any) -> Deed:
    def take(who: Client, there: dict[str, int]) -> Any:
        seen = f"0.{Task.objects.get(pk=there[row]).status}"
        return post(f"task_{name}", row, seen=seen, **data)(who, there)

    return take


def action(name: str, row: str) -> Deed:
    def act(who: Client, there: dict[str, int]) -> Any:
        return who.post(
            reverse(LIST), {"action": name, "_selected_action": [there[row]], "post": "yes"}
        )

    return act


def for_all(name: str, query: str) -> Deed:
    def go(who: Client, there: dict[str, int]) -> Any:
        address = reverse("admin:django_tasks_task_bulk")
        page = who.get(f"{address}?step={name}&{query}").content.decode()
        work = re.findall(r'name="work" value="([^"]*)"', page)
        return who.post(address, {"work": work, "to_0": "2031-01-02", "to_1": "03:04:05"})

    return go


def of_code(name: str, code: str = "order", **data: Any) -> Deed:
    def send(who: Client, there: dict[str, int]) -> Any:
        return who.post(f"{reverse(f'admin:django_tasks_code_{name}')}?code={code}", data)

    return send


FORM = {**NEW, "biz_num": "w", "priority": "9", "seen_version": "0"}
ON = {"run_now": "paused", "pause": "waiting", "resume": "paused", "requeue": "failed"}
ON |= {"cancel": "waiting", "delete_selected": "waiting"}
OF_ACTION = {name: sees_and(permission) for name, permission in ACTIONS.items()}
EVERYTHING = {"biz_code": "", "queue": "", "sure": "everything"}
DEEDS: dict[str, tuple[Deed, Needs]] = {
    "add": (post("task_add", **NEW), [{"add_task"}]),
    "save": (post("task_change", "waiting", **FORM), [{"change_task"}]),
    "save the schedule": (
        lambda who, there: post(
            "recurring_schedule", seen="0.0", task=there["waiting"], schedule="every 2h"
        )(who, there),
        [{"change_task"}],
    ),
    "delete": (post("task_delete", "waiting", post="yes"), [{"delete_task"}]),
    "run now": (step("run_now", "paused"), sees_and(RUN)),
    "reschedule": (step("reschedule", "waiting", wait="300"), sees_and(RUN)),
    "requeue": (step("requeue", "failed"), sees_and(RUN)),
    "pause": (step("pause", "waiting"), sees_and(PAUSE)),
    "resume": (step("resume", "paused"), sees_and(PAUSE)),
    "cancel": (step("cancel", "waiting"), sees_and(CANCEL)),
    **{f"action {name}": (action(name, ON[name]), OF_ACTION[name]) for name in ACTIONS},
    "all: run now": (for_all("run_now", "biz_code=order"), sees_and(RUN)),
    "all: requeue": (for_all("requeue", "biz_code=order"), sees_and(RUN)),
    "all: move": (for_all("move", "biz_code=order"), sees_and(RUN)),
    "all: pause": (for_all("pause", "biz_code=order"), sees_and(PAUSE)),
    "all: resume": (for_all("resume", "biz_code=order"), sees_and(PAUSE)),
    "all: cancel": (for_all("cancel", "biz_code=order"), sees_and(CANCEL)),
    "ask a worker": (
        lambda who, there: who.post(
            reverse("admin:django_tasks_workerrow_ask", args=[there["workerrow"], "stop"])
        ),
        [{"view_workerrow", "operate_task"}],
    ),
    "limits": (of_code("limits", max_running="3", rate_limit=""), [{LOOK, "operate_task"}]),
    "pause a code": (of_code("pause"), [{LOOK, PAUSE}]),
    "resume a code": (of_code("resume", "refund"), [{LOOK, PAUSE}]),
    "pause a queue": (post("pause_add", biz_code="", queue="q"), [{LOOK, PAUSE}]),
    "pause everything": (post("pause_add", **EVERYTHING), [{LOOK, PAUSE}]),
    "resume a queue": (post("pause_resume", "pause"), [{LOOK, PAUSE}]),
    "delete a pause": (post("pause_delete", "pause", post="yes"), [{LOOK, PAUSE}]),
    "resume some": (
        lambda who, there: post(
            "pause_changelist", action="resume_selected", _selected_action=[there["pause"]]
        )(who, there),
        [{LOOK, PAUSE}],
    ),
    **{
        f"{way} of {model}": (
            post(f"{model}_{way}", *([] if way == "add" else [model]), post="yes", name="x"),
            NEVER,
        )
        for model in ("taskrun", "workerrow", "lock")
        for way in ("add", "change", "delete")
    },
}


def does(who: Client, deed: Deed, there: dict[str, int], before: list[Any]) -> bool:
    """Tell if it changes something, which is undone."""
    with transaction.atomic():
        deed(who, there)
        changed = stored() != before
        transaction.set_rollback(True)
    return changed


def test_the_pages_table_has_each_permission_that_allows_something() -> None:
    table = PAGE.read_text("utf-8").partition("Who may do what")[2].partition("Twelve questions")[0]
    needs = [*INDEX, *(each for needs in VIEWS.values() for each in needs)]
    meant = {name for each in needs for name in each}
    assert set(re.findall(r"``(\w+_\w+)``", table)) == meant
    assert meant <= PERMISSIONS


@pytest.mark.parametrize("name", DEEDS)
def test_who_has_all_permissions_does_each_that_anybody_may(
    name: str, boss: Client, there: dict[str, int]
) -> None:
    deed, needs = DEEDS[name]
    assert does(boss, deed, there, stored()) == bool(needs)


@pytest.mark.parametrize("others", [set(), {LOOK}], ids=["alone", "with view_task"])
@pytest.mark.parametrize("permission", sorted(PERMISSIONS))
def test_a_permission_allows_what_the_table_says_and_no_more(
    permission: str, others: set[str], staff: Staff, there: dict[str, int]
) -> None:
    has = {permission} | others
    who = staff(*has)
    before = stored()
    done = {name for name, (deed, _needs) in DEEDS.items() if does(who, deed, there, before)}
    assert done == {name for name, (_deed, needs) in DEEDS.items() if allowed(needs, has)}
    answers = {
        address: who.get(address.format(pk=there[model]), follow=True).status_code
        for model, address in ADDRESSES
    }
    assert set(answers.values()) <= {200, 403, 404}
    seen = {address for address, status in answers.items() if status == 200}
    assert seen == {address for address in answers if allowed(needs_of(address), has)}


@pytest.mark.parametrize("named", [False, True])
def test_names_of_workers_are_for_those_who_may_see_workers(
    named: bool, staff: Staff, there: dict[str, int]
) -> None:
    names = {*re.findall(r"[\w-]+", NAME), "web-2"}
    who = staff(*PERMISSIONS - (set() if named else {"view_workerrow"}))
    shown = set()
    for model, address in ADDRESSES:
        page = who.get(address.format(pk=there[model]), follow=True).content.decode()
        if any(name in page for name in names):
            shown.add(address.partition("django_tasks/")[2])
    expected = {"task/", "task/{pk}/change/", "dashboard/", "taskrun/", "taskrun/{pk}/change/"}
    assert expected <= shown if named else shown == set()
    if not named:
        assert f"#{there['workerrow']}" in text(who.get(reverse(LIST)))
