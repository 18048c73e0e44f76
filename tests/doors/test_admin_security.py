"""The admin shows texts of strangers as texts, and shows and does nothing without permission."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib import admin as django_admin
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, reverse

from django_tasks import api
from django_tasks.admin import display
from django_tasks.admin.display import ERROR_TAIL
from django_tasks.admin.task_steps import STEPS
from django_tasks.exceptions import TaskExists
from django_tasks.models import EndedPause, Gate, Lock, Pause, Task, TaskRun, WorkerRow
from django_tasks.values.status import Status
from tests.doors.conftest import Staff, logged_in
from tests.doors.test_admin import (
    ADD,
    CHANGE,
    DELETE,
    LIST,
    NEW,
    WORKER,
    WORKERS,
    act,
    fields,
    opened,
    save,
)
from tests.factories import a_row, a_run, a_worker, rows, table, the_row

pytestmark = pytest.mark.usefixtures("now")

MARKUP = "\"'><script>alert(1)</script>&lt;b&gt;"
ENDING = "</textarea></pre></script><script>alert(1)</script><img src=x onerror=alert(1)>"
MEGABYTE = 1_000_000


# What a browser would make of a page


class Page(HTMLParser):
    """The scripts of a page, its elements' attributes, and its texts."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(convert_charrefs=True)
        self.size = len(response.content)
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self._in_script = False
        self.feed(response.content.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_script = tag == "script"
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        (self.scripts if self._in_script else self.texts).append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def check(self) -> None:
        assert not any("alert" in script for script in self.scripts)
        assert not [name for name, _value in self.attributes if name.startswith("on")]
        for name, value in self.attributes:
            if name in ("href", "src", "action"):
                assert not str(value).startswith(("javascript", "data:", "x"))


def safe(response: Any) -> Page:
    assert response.status_code == 200
    assert b"<script>alert" not in response.content
    page = Page(response)
    page.check()
    return page


def test_a_page_with_a_script_of_a_row_would_be_noticed() -> None:
    for bad in (f"<p>{MARKUP}</p>", '<a title="x" onclick=alert(1)>', "<a href='javascript:x'>"):
        with pytest.raises(AssertionError):
            safe(HttpResponse(bad))


@pytest.fixture
def hostile(boss: Client) -> Task:
    """A task whose every text is markup, owned by such a worker."""
    worker = a_worker(MARKUP, queues=[MARKUP], counters={MARKUP: MARKUP}, state=MARKUP[:20])
    return a_row(
        MARKUP,
        biz_code=MARKUP,
        queue=MARKUP,
        biz_ext={MARKUP: [ENDING]},
        last_error=f"{ENDING}\n{MARKUP}",
        schedule=f"{ENDING}\n{MARKUP}",
        status=Status.RUNNING,
        claimed_by=worker.pk,
    )


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"q": MARKUP},
        {"q": f"{MARKUP}/{MARKUP}"},
        {"biz_code": MARKUP},
        {"queue": MARKUP},
        {"o": MARKUP},
        {"p": MARKUP},
        {"e": MARKUP},
    ],
)
def test_the_list_shows_markup_as_text(query: dict[str, str], hostile: Task, boss: Client) -> None:
    page = safe(boss.get(reverse(LIST), query, follow=True))
    # The key, the queue and the worker, and the two filters.
    assert page.text.count(MARKUP) >= (6 if set(query) <= {"o", "p", "biz_code", "queue"} else 0)


def test_the_pages_of_runs_show_markup_as_text(boss: Client) -> None:
    run = a_run(biz_code=MARKUP, biz_num=MARKUP, worker=MARKUP, error=ENDING, missed=MARKUP[:20])
    listed = safe(boss.get(reverse("admin:django_tasks_taskrun_changelist")))
    shown = safe(boss.get(reverse("admin:django_tasks_taskrun_change", args=[run.pk])))
    assert listed.text.count(MARKUP) >= 3
    assert shown.text.count(MARKUP) >= 3
    assert ENDING in shown.text


def test_a_tasks_own_pages_show_markup_as_text(hostile: Task, boss: Client) -> None:
    page = safe(boss.get(reverse(CHANGE, args=[hostile.pk])))
    assert page.text.count(ENDING) >= 2  # payload, error
    assert page.text.count(MARKUP) >= 4
    values = [value for name, value in page.attributes if name == "value"]
    assert MARKUP in values  # the queue's field
    assert f"{ENDING}\n{MARKUP}" in values  # the schedule's
    assert fields(boss.get(reverse(CHANGE, args=[hostile.pk])))["queue"] == MARKUP
    for name in (DELETE, "admin:django_tasks_task_history"):
        assert MARKUP in safe(boss.get(reverse(name, args=[hostile.pk]))).text


def test_who_may_only_view_sees_markup_as_text(hostile: Task, staff: Staff) -> None:
    who = staff("view_task", "view_taskrun", "view_workerrow", "view_lock")
    page = safe(who.get(reverse(CHANGE, args=[hostile.pk])))
    assert MARKUP in page.text
    safe(who.get(reverse(LIST)))
    safe(who.get(reverse(WORKERS)))


def test_what_actions_say_and_note_is_text(hostile: Task, boss: Client) -> None:
    for action in ("run_now", "pause", "resume", "requeue", "cancel"):
        chosen = {"action": action, "_selected_action": [hostile.pk], "post": "yes"}
        assert safe(boss.post(reverse(LIST), chosen, follow=True)).text
    chosen = {"action": "cancel", "_selected_action": [hostile.pk]}
    assert MARKUP in safe(boss.post(reverse(LIST), chosen)).text
    chosen = {"action": "delete_selected", "_selected_action": [hostile.pk]}
    assert MARKUP in safe(boss.post(reverse(LIST), chosen)).text
    safe(boss.post(reverse(LIST), chosen | {"post": "yes"}, follow=True))
    assert MARKUP in safe(boss.get(reverse("admin:index"))).text
    history = safe(boss.get(reverse("admin:django_tasks_task_history", args=[hostile.pk])))
    assert "Cancel" in history.text


def test_an_action_with_a_hostile_name_is_text(hostile: Task, boss: Client) -> None:
    chosen = {"action": MARKUP, "_selected_action": [hostile.pk, MARKUP]}
    safe(boss.post(reverse(LIST), chosen | {"index": "0"}, follow=True))


def test_what_the_form_says_and_shows_again_is_text(hostile: Task, boss: Client) -> None:
    added = safe(boss.post(reverse(ADD), NEW | {"biz_code": MARKUP, "biz_num": "7"}, follow=True))
    assert "No handler of" in added.text
    assert MARKUP in added.text
    wrong = {"biz_num": MARKUP * 5, "when_0": MARKUP, "biz_ext": f"{{{ENDING}", "priority": MARKUP}
    again = safe(boss.post(reverse(ADD), NEW | wrong))
    assert ENDING in again.text
    form = opened(boss, hostile) | {"seen_version": MARKUP, "biz_ext": json.dumps(ENDING)}
    safe(save(boss, hostile, form))
    moved = opened(boss, hostile) | {"priority": "9"}
    assert MARKUP in safe(boss.post(reverse(CHANGE, args=[hostile.pk]), moved, follow=True)).text
    safe(boss.post(reverse(DELETE, args=[hostile.pk]), {"post": "yes"}, follow=True))


def test_a_key_that_somebody_has_added_meanwhile_is_told_as_text(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*args: Any, **kwargs: Any) -> Any:
        raise TaskExists("biz_num", MARKUP, f"of {MARKUP!r} exists already")

    monkeypatch.setattr(api, "add_task", overtaken)
    page = safe(boss.post(reverse(ADD), NEW, follow=True))
    assert "<script>alert(1)</script>" in page.text


def test_the_pages_of_workers_show_markup_as_text(hostile: Task, boss: Client) -> None:
    worker = WorkerRow.objects.get()
    for page in (reverse(WORKERS), reverse(WORKER, args=[worker.pk])):
        assert safe(boss.get(page)).text.count(MARKUP) >= 2
    safe(boss.get(reverse("admin:django_tasks_workerrow_history", args=[worker.pk])))


# A megabyte of it


@pytest.fixture
def huge(boss: Client) -> Task:
    many = (MEGABYTE - 1000) // len(ENDING)
    # No name in an object of MySQL's JSON is longer than 64 KB.
    long_names = {"x" * 50_000 + str(number): 2 for number in range(MEGABYTE // 50_000)}
    a_worker(MARKUP * 5, queues=[MARKUP] * (MEGABYTE // 40), counters={MARKUP: 1} | long_names)
    return a_row(
        MARKUP,
        biz_code=MARKUP,
        biz_ext={"x": ENDING * many, "end": "of the payload"},
        last_error=f"begins{ENDING * many}ends",
        schedule=f"begins{ENDING * many}ends",
        status=Status.PAUSED,
    )


def test_a_list_of_megabytes_is_short(huge: Task, boss: Client, queries: Any) -> None:
    with queries() as asked:
        assert safe(boss.get(reverse(LIST))).size < 100_000
    read = [column for query in asked for column in re.findall(r"\w+", query["sql"])]
    assert not {"biz_ext", "schedule", "options"} & {*read}
    (of_errors,) = (query["sql"] for query in asked if "last_error" in query["sql"])
    assert str(ERROR_TAIL) in of_errors
    assert safe(boss.get(reverse(WORKERS))).size < 100_000


def test_pages_of_a_task_with_megabytes_stay_within_what_a_browser_survives(
    huge: Task, boss: Client, staff: Staff
) -> None:
    for who in (boss, staff("view_task")):
        page = safe(who.get(reverse(CHANGE, args=[huge.pk])))
        assert page.size < 1_000_000
        assert f"100000 of {len(huge.last_error)} characters are shown." in page.text
        assert "ends" in page.text  # of the error, where its reason is
    for name in (DELETE, "admin:django_tasks_task_history"):
        assert safe(boss.get(reverse(name, args=[huge.pk]))).size < 100_000
    chosen = {"action": "delete_selected", "_selected_action": [huge.pk]}
    assert safe(boss.post(reverse(LIST), chosen)).size < 100_000
    (worker,) = WorkerRow.objects.all()
    assert safe(boss.get(reverse(WORKER, args=[worker.pk]))).size < 100_000


def test_actions_read_no_megabytes(boss: Client, queries: Any) -> None:
    task = a_row(biz_ext={"x": "y" * MEGABYTE}, status=Status.PAUSED)
    for action in ("resume", "pause", "cancel"):
        with queries() as asked:
            act(boss, action, task)
        selects = [query["sql"] for query in asked if query["sql"].startswith("SELECT")]
        assert not any("last_error" in sql and str(ERROR_TAIL) not in sql for sql in selects)
        # A cancel has the database look if a payload is a call; it gets those of calls alone.
        assert not any("biz_ext" in sql and "CASE WHEN" not in sql for sql in selects)


def test_a_payload_too_long_to_edit_is_kept_when_the_rest_is_changed(
    huge: Task, boss: Client
) -> None:
    table().update(schedule=None)
    form = opened(boss, huge)
    assert "biz_ext" not in form
    assert save(boss, huge, form | {"priority": "9", "biz_ext": '"forged"'}).status_code == 302
    row = the_row(MARKUP, MARKUP)
    assert (row.priority, row.version) == (9, 1)
    assert row.biz_ext == huge.biz_ext


def test_a_payload_that_indenting_would_blow_up_is_edited_as_one_line(boss: Client) -> None:
    value: Any = [0] * 20_000
    for _ in range(29):
        value = [value]
    task = a_row(biz_ext=value)
    form = opened(boss, task)
    assert len(form["biz_ext"]) < 100_000
    # The whole form goes through, as a browser sends it.
    assert save(boss, task, form | {"priority": "9"}).status_code == 302
    assert the_row().priority == 9
    assert the_row().biz_ext == value


def test_a_payload_as_long_as_can_be_edited_goes_through_the_form(boss: Client) -> None:
    task = a_row(biz_ext="\U0001f600" * (display.LONG_TEXT - 2))
    form = opened(boss, task)
    response = boss.post(
        reverse(CHANGE, args=[task.pk]),
        "&".join(f"{name}={quoted(value)}" for name, value in (form | {"priority": "9"}).items()),
        content_type="application/x-www-form-urlencoded",
    )
    assert response.status_code == 302
    assert the_row().priority == 9


def quoted(value: Any) -> str:
    return quote(str(value), safe="")


# Who may: every address that the admin has for our models


SECRET = "top-secret-number"
ACTIONS = {
    "run_now": "run_task",
    "pause": "pause_task",
    "resume": "pause_task",
    "requeue": "run_task",
    "cancel": "cancel_task",
    "delete_selected": "delete_task",
}
PERMISSIONS = {
    *("add_task", "change_task", "delete_task", "view_task", "run_task", "cancel_task"),
    *("pause_task", "operate_task"),
    *("add_workerrow", "change_workerrow", "delete_workerrow", "view_workerrow"),
    *("add_lock", "change_lock", "delete_lock", "view_lock", "view_taskrun"),
}


def addresses() -> Iterator[tuple[str, str]]:
    """(model, address) of every view, with "{pk}" for the row's id."""
    index = reverse("admin:index")
    yield "app", f"{index}django_tasks/"
    for resolver in django_admin.site.get_urls():
        route = str(resolver.pattern)
        if isinstance(resolver, URLResolver) and route.startswith("django_tasks/"):
            for view in resolver.url_patterns:
                assert isinstance(view, URLPattern)
                path = re.sub("<(path|int):[a-z]+_id>", "{pk}", str(view.pattern))
                path = path.replace("<slug:word>", "stop")
                assert "<" not in path, "an address with an argument that this test does not know"
                yield route.split("/")[1], f"{index}{route}{path}"


ADDRESSES = sorted(set(addresses()))


def test_the_addresses_are_those_of_our_models() -> None:
    views = {address.partition("django_tasks/")[2] for _model, address in ADDRESSES}
    usual = {"", "add/", "{pk}/history/", "{pk}/delete/", "{pk}/change/", "{pk}/"}
    models = ("task", "taskrun", "workerrow", "pause", "lock")
    ours = {f"task/{{pk}}/{step.address}/" for step in STEPS}
    ours |= {"task/recurring/", "task/recurring/schedule/", "task/bulk/", "task/failures/"}
    ours |= {"dashboard/", "workerrow/{pk}/ask/stop/", "pause/{pk}/resume/"}
    ours |= {f"codes/{view}" for view in ("", "one/", "limits/", "pause/", "resume/")}
    assert views == {""} | ours | {f"{model}/{view}" for model in models for view in usual}


def test_every_action_is_known_to_these_tests(boss: Client, rf: Any) -> None:
    request = rf.get("/")
    request.user = User.objects.get()
    assert set(django_admin.site.get_model_admin(Task).get_actions(request)) == set(ACTIONS)
    for model in (TaskRun, WorkerRow, Pause, Lock):
        actions = django_admin.site.get_model_admin(model).get_actions(request)
        assert set(actions) <= {"resume_selected"}


def test_the_permissions_are_known_to_these_tests(db: None) -> None:
    ours = Permission.objects.filter(content_type__app_label="django_tasks")
    assert set(ours.values_list("codename", flat=True)) == PERMISSIONS


@pytest.fixture
def rows_of_all(db: None) -> dict[str, int]:
    """The id of a row of each model."""
    task = a_row(SECRET, last_error=SECRET, biz_ext=SECRET, status=Status.PAUSED)
    pause = Pause.objects.create(queue=SECRET, biz_code=SECRET)
    return {
        "task": task.pk,
        "taskrun": a_run(biz_num=SECRET, error=SECRET, worker=SECRET).pk,
        "workerrow": a_worker(SECRET).pk,
        "pause": pause.pk,
        "lock": Lock.objects.create(name=SECRET, holder=SECRET).pk,
        **dict.fromkeys(("app", "dashboard", "codes"), 0),
    }


def stored() -> list[Any]:
    models = (Task, TaskRun, WorkerRow, Pause, EndedPause, Lock, Gate)
    return [list(model.objects.order_by("pk").values()) for model in models]


def posts(pk: int) -> Iterator[dict[str, Any]]:
    """Posts that somebody might send to any address."""
    yield {}
    yield {"post": "yes"}
    yield NEW | {"biz_code": "order", "biz_num": SECRET, "seen_version": "0"}
    yield {"seen": f"0.{Status.PAUSED.value}", "wait": "300", "when_0": "", "when_1": ""}
    yield {"seen": f"0.{Status.PAUSED.value}", "task": str(pk), "schedule": "every 1h"}
    for action in ACTIONS:
        chosen = {"action": action, "_selected_action": [pk], "select_across": "0", "index": "0"}
        yield chosen | {"post": "yes"}
        yield {"CHANGE_FORM-action": action, "_selected_action": [pk], "post": "yes"}


def everybody() -> dict[str, Client]:
    """Those who have no permission for our models."""
    user = User.objects.create_user("user")
    user.user_permissions.set(Permission.objects.all())
    sleeping = User.objects.create_superuser("sleeping", is_active=False)
    other = User.objects.create_user("other", is_staff=True)
    others = Permission.objects.exclude(content_type__app_label="django_tasks")
    other.user_permissions.set(others)
    nothing = User.objects.create_user("nothing", is_staff=True)
    return {
        "nobody": Client(),
        "not staff, with all permissions": logged_in(user),
        "a superuser who is not active": logged_in(sleeping),
        "staff with the permissions of other apps": logged_in(other),
        "staff without permissions": logged_in(nothing),
    }


def gets_nothing(who: Client, response: Any) -> bool:
    """Refused, not there, or the login page; and no word of the rows."""
    if response.status_code == 302 and "/login/" not in response["Location"]:
        return gets_nothing(who, who.get(response["Location"]))
    refused = response.status_code in (302, 403, 404)
    return refused and SECRET not in response.content.decode()


@pytest.mark.parametrize(("model", "address"), ADDRESSES)
def test_without_permission_every_address_gives_and_does_nothing(
    model: str, address: str, rows_of_all: dict[str, int]
) -> None:
    pk = rows_of_all[model]
    before, path = stored(), address.format(pk=pk)
    for person, who in everybody().items():
        assert gets_nothing(who, who.get(path)), person
        assert gets_nothing(who, who.head(path)), person
        for data in posts(pk):
            response = who.post(path, data)
            assert gets_nothing(who, response), (person, data)
    assert stored() == before


@pytest.mark.parametrize(("model", "address"), ADDRESSES)
def test_who_may_only_view_changes_nothing_anywhere(
    model: str, address: str, rows_of_all: dict[str, int], staff: Staff
) -> None:
    pk = rows_of_all[model]
    before, path = stored(), address.format(pk=pk)
    who = staff("view_task", "view_taskrun", "view_workerrow", "view_lock")
    for_changes = ("/add/", "/delete/", "/stop/", "/resume/", "codes/limits/", "codes/pause/")
    is_for_changes = path.endswith((*for_changes, *(f"{pk}/{step.address}/" for step in STEPS)))
    assert who.get(path, follow=True).status_code == (403 if is_for_changes else 200)
    for data in posts(pk):
        who.post(path, data, follow=True)
        assert stored() == before, data


@pytest.mark.parametrize(("action", "permission"), ACTIONS.items())
def test_an_action_is_taken_with_its_permission_and_refused_without(
    action: str, permission: str, staff: Staff
) -> None:
    statuses = {"run_now": Status.PAUSED, "resume": Status.PAUSED, "requeue": Status.FAILED}
    task = a_row(status=statuses.get(action, Status.PENDING))
    data = {"action": action, "_selected_action": [task.pk], "post": "yes"}
    before = stored()
    for path in (reverse(LIST), reverse(CHANGE, args=[task.pk])):
        # Saving the form is another matter, and wants the permission to change.
        staff(*PERMISSIONS - {permission, "change_task"}).post(path, data)
        assert stored() == before
    # Without a look at the tasks nobody steers them.
    assert staff(permission).post(reverse(LIST), data).status_code == 403
    assert stored() == before
    staff("view_task", permission).post(reverse(LIST), data)
    assert stored() != before


@pytest.mark.parametrize(("model", "address"), ADDRESSES)
def test_a_form_of_another_site_changes_nothing(
    model: str, address: str, rows_of_all: dict[str, int]
) -> None:
    who = Client(enforce_csrf_checks=True)
    who.force_login(User.objects.create_superuser("boss"))
    before, path = stored(), address.format(pk=rows_of_all[model])
    for data in posts(rows_of_all[model]):
        assert who.post(path, data).status_code == 403
    assert stored() == before


@pytest.mark.parametrize(("model", "address"), ADDRESSES)
def test_looking_changes_nothing(
    model: str, address: str, rows_of_all: dict[str, int], boss: Client
) -> None:
    before, path = stored(), address.format(pk=rows_of_all[model])
    for data in posts(rows_of_all[model]):
        boss.get(path, data, follow=True)
    assert stored() == before


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "٣", "²", "-1", "1e9"])
def test_a_number_that_no_row_has_is_nowhere_for_anybody(
    number: str, boss: Client, staff: Staff
) -> None:
    for who in (boss, staff()):
        for _model, address in ADDRESSES:
            if "{pk}" in address:
                response = who.get(address.format(pk=quoted(number)), follow=True)
                assert response.status_code in (200, 403, 404), address


def test_an_action_takes_only_tasks_that_were_chosen(boss: Client) -> None:
    rows(range(5), status=Status.PAUSED)
    act(boss, "resume", the_row("3"))
    resumed = Task.objects.filter(status=Status.PENDING).values_list("biz_num", flat=True)
    assert list(resumed) == ["3"]
