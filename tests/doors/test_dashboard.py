"""The dashboard, and what all of our own pages have in common."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import include, path, reverse
from django.utils.html import escape

from django_tasks import api
from django_tasks.admin import charts, site
from django_tasks.admin.charts import Curve, Part, Stack
from django_tasks.models import Lock, Pause, TaskMinute, WorkerRow
from django_tasks.timezones import for_django
from django_tasks.values.status import Status
from tests.doors.conftest import Staff, logged_in
from tests.doors.pages import forbidden
from tests.doors.test_admin import text
from tests.factories import NOW, a_row, a_run, a_worker, later, rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

DASHBOARD = "admin:django_tasks_dashboard"
HOSTILE = "<b>&\"'%s{0}</b><script>alert(1)</script>"[:50]

# An admin site of a project's own, under another name.
other_site = admin.AdminSite(name="office")
for _page in ("Dashboard", "Task"):
    _model = next(each for each in admin.site._registry if each.__name__ == _page)
    other_site.register(_model, type(admin.site._registry[_model]))
urlpatterns = [
    path("admin/", admin.site.urls),
    path("office/", other_site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
]


def a_minute(seconds_ago: float = 60, **counts: int) -> None:
    minute = int(later(-seconds_ago).timestamp()) // 60
    TaskMinute.objects.create(biz_code="order", minute=minute, worker=1, **counts)


def busy() -> None:
    """Something of everything."""
    worker = a_worker("w1", version="1.0", codes=["order"], host="web-1", pid=7, busy=1)
    a_worker("w2", version="1.1", heartbeat=later(-58))
    rows(range(3), when=later(-200))
    rows(range(3, 9), when=later(1200))
    a_row("f", status=Status.FAILED, exception="a.b.Oops", update_time=later(-5))
    a_row("r", status=Status.RUNNING, claimed_by=worker.pk)
    a_row("1", biz_code="refund", when=later(-5))
    a_minute(done=60, failed=3, late_1=63, took_2=63)
    api.pause_tasks(biz_code="mail")


# Who may


def test_who_may_see_tasks_sees_the_dashboard_and_nobody_else(staff: Staff) -> None:
    page = reverse(DASHBOARD)
    assert staff("view_task").get(page).status_code == 200
    assert staff("view_workerrow", "change_task").get(page).status_code == 403
    assert "/login/" in Client().get(page)["Location"]


def test_the_site_and_the_app_lead_to_it(staff: Staff) -> None:
    link = f'href="{reverse(DASHBOARD)}"'
    who = staff("view_task")
    for page in (reverse("admin:index"), reverse("admin:app_list", args=["django_tasks"])):
        assert link in who.get(page).content.decode()
    body = staff("view_lock").get(reverse("admin:index")).content.decode()
    assert link not in body


def test_the_pages_without_rows_are_no_tables_and_have_no_permissions() -> None:
    from django.apps import apps
    from django.contrib.auth.models import Permission

    names = {model.__name__ for model in apps.get_app_config("django_tasks").get_models()}
    assert not names & {"Dashboard", "Codes"}
    assert not Permission.objects.filter(codename__contains="dashboard").exists()


@override_settings(ROOT_URLCONF=__name__)
def test_another_site_has_it_under_its_own_name_and_shows_only_what_it_has(boss: Client) -> None:
    busy()
    page = boss.get(reverse("office:django_tasks_dashboard"))
    assert page.status_code == 200
    links = set(re.findall(r'href="(/[^"?]*)', page.content.decode()))
    assert "/office/django_tasks/task/" in links
    assert not [link for link in links if link.startswith("/admin/")]
    assert not [link for link in links if "workerrow" in link or "codes" in link]


def test_the_links_between_the_pages_are_those_one_may_follow(staff: Staff) -> None:
    def links(*permissions: str) -> set[str]:
        body = staff("view_task", *permissions).get(reverse(DASHBOARD)).content.decode()
        nav = body.partition('<nav class="task-nav"')[2].partition("</nav>")[0]
        return set(re.findall(r">([A-Z]\w+)</a>", nav))

    of_tasks = {"Dashboard", "Tasks", "Codes", "Pauses"}
    assert links() & {*of_tasks, "Workers", "Runs", "Locks"} == of_tasks
    assert links("view_workerrow", "view_taskrun", "view_lock") >= {
        *of_tasks,
        *("Workers", "Runs", "Locks"),
    }


@pytest.mark.parametrize("permissions", [(), ("view_workerrow",)])
def test_every_link_is_one_that_the_reader_may_follow(
    staff: Staff, permissions: tuple[str, ...]
) -> None:
    busy()
    who = staff("view_task", *permissions)
    body = who.get(reverse(DASHBOARD)).content.decode()
    links = set(re.findall(r'href="(/admin/django_tasks/[^"]*)"', body))
    assert {link: who.get(unescape(link)).status_code for link in links} == dict.fromkeys(
        links, 200
    )
    of_workers = reverse("admin:django_tasks_workerrow_changelist")
    assert any(link.startswith(of_workers) for link in links) == bool(permissions)


# What it shows


def test_an_empty_database_has_a_dashboard(boss: Client, handlers: Any) -> None:
    page = text(boss.get(reverse(DASHBOARD)))
    assert "No worker has run yet: start one with “manage.py starttask”." in page
    assert "nothing is late" in page
    assert "nothing has failed" in page


def test_it_answers_the_questions_of_the_night(boss: Client) -> None:
    busy()
    response = boss.get(reverse(DASHBOARD))
    page = text(response)
    for words in (
        "Workers 1 at work, 1 other",
        "Late 3 the oldest by 3 min 20 s",
        "Failed 1",
        "Coming 6 due in the next 3 h",
        "1 due task of “refund” has no handler in any running worker.",
        "Worker w2 is 48 s late with its heartbeat.",
        "3 tasks of “order” are late, the oldest by 3 min 20 s.",
        "Code mail has been paused since",
        "1 task of “order” has failed with Oops",
        "last hour 63",
    ):
        assert words in page
    body = response.content.decode()
    tasks = reverse("admin:django_tasks_task_changelist")
    assert f'href="{tasks}?due=late&amp;code=order"' in body
    assert f'href="{tasks}?status=failed&amp;code=order&amp;exception=a.b.Oops"' in body


@pytest.mark.parametrize("use_tz", [True, False])
def test_its_times_are_in_the_zone_of_the_reader(use_tz: bool, boss: Client) -> None:
    with override_settings(USE_TZ=use_tz, TIME_ZONE="Europe/Berlin"):
        busy()
        assert "As of 2030-05-17 14:30:15 CEST" in text(boss.get(reverse(DASHBOARD)))


@pytest.mark.parametrize("span", ["hour", "day", "week", "year", "<b>"])
def test_the_charts_are_of_an_hour_a_day_or_a_week(span: str, boss: Client) -> None:
    a_minute(done=7)
    page = text(boss.get(reverse(DASHBOARD), {"span": span}))
    known = span if span in ("hour", "day", "week") else "hour"
    assert f"Runs in the last {known}" in page


def test_each_chart_is_an_image_with_words_and_a_table(boss: Client) -> None:
    busy()
    body = boss.get(reverse(DASHBOARD)).content.decode()
    found = re.findall(r"<figure.*?</figure>", body, re.DOTALL)
    assert len(found) == 3
    for figure in found:
        image = re.search(r"<svg.*</svg>", figure, re.DOTALL)
        assert image
        root = ElementTree.fromstring(image[0])  # noqa: S314
        assert root.get("role") == "img"
        ids = [
            each.get("id") for each in (root.find("title"), root.find("desc")) if each is not None
        ]
        assert root.get("aria-labelledby", "").split() == ids
        assert "<details" in figure
        assert figure.count("<tr>") > 10


def test_in_a_language_with_decimal_commas_the_charts_are_still_drawn(boss: Client) -> None:
    busy()
    with override_settings(LANGUAGE_CODE="de", USE_THOUSAND_SEPARATOR=True):
        body = boss.get(reverse(DASHBOARD)).content.decode()
    for value in re.findall(r'<rect[^>]* (?:x|y|width|height)="([^"]*)"', body):
        float(value)


def test_names_that_are_markup_are_shown_as_text(boss: Client) -> None:
    a_worker(HOSTILE, heartbeat=later(-58))
    rows(range(2), biz_code=HOSTILE[:40], queue=HOSTILE[:20], when=later(-100))
    a_row("f", biz_code=HOSTILE[:40], status=Status.FAILED, exception=HOSTILE)
    api.pause_tasks(biz_code=HOSTILE[:40], queue=HOSTILE[:20], by=HOSTILE)
    body = boss.get(reverse(DASHBOARD)).content.decode()
    assert HOSTILE[:40] not in body
    assert escape(HOSTILE[:40]) in body


def test_it_takes_as_many_statements_for_many_tasks_codes_and_workers(
    boss: Client, queries: Any
) -> None:
    busy()
    boss.get(reverse(DASHBOARD))
    with queries() as few:
        boss.get(reverse(DASHBOARD))
    for number in range(25):
        a_worker(f"more {number}", version="1.0")
        rows(range(5), biz_code=f"code{number}", when=later(-100))
        rows(range(5, 9), biz_code=f"code{number}", status=Status.FAILED)
    with queries() as many:
        boss.get(reverse(DASHBOARD))
    assert len(many) == len(few) <= 24


def test_it_is_never_kept_by_a_cache_and_says_how_often_to_look(boss: Client) -> None:
    response = boss.get(reverse(DASHBOARD))
    assert "no-store" in response["Cache-Control"]
    assert 'data-refresh="15"' in response.content.decode()
    assert "django_tasks/dashboard.js" in response.content.decode()


def test_everything_is_read_and_changed_where_the_tasks_are(
    boss: Client, task_database: str, queries: Any
) -> None:
    worker = WorkerRow.objects.using(task_database).create(
        name="w1",
        started=for_django(NOW),
        heartbeat=for_django(NOW),
        lease=30,
        threads=8,
        state="running",
    )
    limits = f"{reverse('admin:django_tasks_code_limits')}?code=order"
    pause = f"{reverse('admin:django_tasks_code_pause')}?code=order"
    with queries() as elsewhere:
        for name in ("dashboard", "codes", "workerrow_changelist", "pause_changelist"):
            assert boss.get(reverse(f"admin:django_tasks_{name}")).status_code == 200
        boss.post(limits, {"max_running": "2", "rate_limit": ""})
        boss.post(pause)
        boss.post(reverse("admin:django_tasks_workerrow_ask", args=[worker.pk, "quiet"]))
    assert not any("t_task" in query["sql"] for query in elsewhere)
    worker.refresh_from_db()
    assert worker.wish == "quiet"
    assert [each.biz_code for each in api.paused(using=task_database)] == ["order"]
    assert dict(api.limits(using=task_database))["order"][0] == 2


# Charts


def test_bars_stand_on_each_other_and_the_highest_fits() -> None:
    found = [
        Stack("a", "9", (Part(6, "bad"), Part(3, "plain"))),
        Stack("b", "0", (Part(0, "plain"),)),
    ]
    chart = charts.bars("k", "t", "w", found, ("x", "y"))
    lower, upper = chart.rects
    assert float(upper.y) + float(upper.height) == pytest.approx(float(lower.y))
    assert float(upper.y) >= charts.TOP
    assert chart.rows == (("a", "9"), ("b", "0"))


def test_a_line_has_gaps_where_there_is_nothing() -> None:
    line = Curve("p50", "plain", [1.0, 2.0, None, 3.0, None])
    texts = [("",)] * 5
    ticks = [(0.1, "100 ms"), (10, "10 s")]
    chart = charts.lines("k", "t", "w", "abcde", [line], texts, ticks, ("x", "y"))
    (stroke,) = chart.strokes
    assert len(stroke.pieces) == 1
    assert len(stroke.dots) == 1


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 2), (2, 2), (2.1, 4), (7, 8), (9, 10), (10, 10), (11, 20), (501, 600), (2300, 3000)],
)
def test_scales_end_at_round_numbers(value: float, top: float) -> None:
    assert charts.round_up(value) == top


def test_a_small_line_of_nothing_is_none() -> None:
    assert charts.spark([]) == charts.spark([0, 0]) == ""
    assert len(charts.spark([0, 4, 2]).split()) == 3


# Every page of ours


def addresses() -> Iterator[str]:
    worker = a_worker("w1", version="1.0")
    task = a_row("x", status=Status.RUNNING, claimed_by=worker.pk, last_error="no")
    pause = Pause.objects.create(biz_code="order", queue="")
    lock = Lock.objects.create(name="report", holder="w1")
    yield reverse("admin:app_list", args=["django_tasks"])
    for name in ("dashboard", "codes"):
        yield reverse(f"admin:django_tasks_{name}")
    yield reverse("admin:django_tasks_code") + "?code=order"
    yield reverse("admin:django_tasks_code_pause") + "?code=order"
    for word in ("quiet", "stop", "work"):
        yield reverse("admin:django_tasks_workerrow_ask", args=[worker.pk, word])
    yield reverse("admin:django_tasks_pause_resume", args=[pause.pk])
    for row in (task, a_run(), worker, lock, pause):
        name = f"admin:django_tasks_{row._meta.model_name}"
        yield reverse(f"{name}_changelist")
        yield reverse(f"{name}_change", args=[row.pk])
        yield reverse(f"{name}_history", args=[row.pk])
    yield reverse("admin:django_tasks_pause_add")
    yield reverse("admin:django_tasks_task_add")
    yield reverse("admin:django_tasks_task_delete", args=[task.pk])


def test_no_page_needs_inline_script_or_style_and_all_say_so(boss: Client) -> None:
    for page in addresses():
        response = boss.get(page)
        assert response.status_code == 200, page
        assert forbidden(response) == [], page
        if page != reverse("admin:app_list", args=["django_tasks"]):  # Django's own view
            assert response[site.POLICY].startswith("default-src 'self';"), page


def test_what_a_strict_policy_forbids_would_be_noticed() -> None:
    for bad in ('<p style="x">', "<style>", "<script>1</script>", "<a onclick=x>"):
        assert forbidden(HttpResponse(bad))
    assert forbidden(HttpResponse('<a href=" JavaScript:x">'))
    assert not forbidden(HttpResponse('<script src="x"></script><p class="style">'))


def test_the_question_before_everything_is_paused_is_strict_too(boss: Client) -> None:
    response = boss.post(reverse("admin:django_tasks_pause_add"), {"biz_code": "", "queue": ""})
    assert forbidden(response) == []
    assert site.POLICY in response


def test_a_project_with_a_policy_keeps_its_own(boss: Client, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.csp_of_project"]
    assert boss.get(reverse(DASHBOARD))[site.POLICY] == "default-src *"


def csp_of_project(get_response: Any) -> Any:
    def respond(request: Any) -> Any:
        response = get_response(request)
        response.headers.setdefault(site.POLICY, "default-src *")
        return response

    return respond


def test_static_files_of_another_host_are_allowed(settings: Any) -> None:
    assert site.policy().startswith("default-src 'self';")
    settings.STATIC_URL = "https://cdn.example/s/"
    assert site.policy().startswith("default-src 'self' https://cdn.example;")
    settings.STATIC_URL = "https://user:secret@cdn.example:8443/s/"
    assert site.policy().startswith("default-src 'self' https://cdn.example:8443;")


def test_the_pages_are_there_for_who_may_only_view(db: None) -> None:
    from django.contrib.auth.models import Permission

    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    who = logged_in(reader)
    busy()
    for name in ("dashboard", "codes", "workerrow_changelist", "pause_changelist"):
        response = who.get(reverse(f"admin:django_tasks_{name}"))
        assert response.status_code == 200
        main = response.content.decode().partition('id="content-main"')[2]
        assert 'method="post"' not in main.replace('id="changelist-form" method="post"', "")
