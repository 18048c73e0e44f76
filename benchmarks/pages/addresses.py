"""The pages that are measured, as people open them."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django.urls import NoReverseMatch, reverse

from django_tasks.models import Task, TaskRun, WorkerRow
from django_tasks.store import clock
from django_tasks.values.status import Status

if TYPE_CHECKING:
    from django.db.models import QuerySet


class Page(NamedTuple):
    """A page, by the name of its URL; ``query`` and ``place`` name rows as ``{failed}``.

    It may send ``most`` statements, those of the session and the user among them, and that of the
    database's clock, which is asked once a while. ``site`` is the namespace of the name; one
    without it is read by a scraper.
    """

    title: str
    name: str
    query: str = ""
    place: str = ""
    most: int = 60
    site: str = "admin:"

    def url(self, ids: dict[str, Any]) -> str:
        """The address, with the ids of rows that are there."""
        place = [self.place.format(**ids)] if self.place else []
        address = reverse(f"{self.site}{self.name}", args=place)
        return f"{address}?{self.query.format(**ids)}" if self.query else address

    def is_there(self) -> bool:
        try:
            reverse(f"{self.site}{self.name}", args=["1"] if self.place else [])
        except NoReverseMatch:
            return False
        return True


# As a view with ``keep_connections`` and ``starttask --metrics-port`` answer.
KEPT = Page("Metrics, connection kept", "metrics_kept", site="")

_TASKS = "django_tasks_task_changelist"
_RUNS = "django_tasks_taskrun_changelist"

PAGES = (
    Page("Metrics", "django_tasks_metrics", most=14, site=""),
    Page("Admin's index", "index", most=6),
    Page("Dashboard", "django_tasks_dashboard", most=21),
    Page("Dashboard: a week", "django_tasks_dashboard", "span=week", most=21),
    Page("Codes", "django_tasks_codes", most=17),
    Page("A code: half of the rows", "django_tasks_code", "code=order_timeout", most=17),
    Page("A code: a small one", "django_tasks_code", "code=legacy", most=17),
    Page("Tasks", _TASKS, most=20),
    Page("Tasks: the next page", _TASKS, "p=after-{middle}", most=20),
    Page("Tasks: the previous page", _TASKS, "p=before-{middle}", most=20),
    Page("Tasks: failed", _TASKS, "status__exact=2", most=20),
    Page("Tasks: pending", _TASKS, "status__exact=0", most=20),
    Page("Tasks: pending, the next page", _TASKS, "status__exact=0&p=after-{middle}", most=26),
    Page("Tasks: a code of half of the rows", _TASKS, "biz_code=order_timeout", most=20),
    Page("Tasks: a small code", _TASKS, "biz_code=legacy", most=18),
    Page("Tasks: failed of a code", _TASKS, "biz_code=refund&status__exact=2", most=19),
    Page("Tasks: pending of a code", _TASKS, "biz_code=order_timeout&status__exact=0", most=21),
    Page("Tasks: a code in a queue", _TASKS, "biz_code=order_timeout&queue=default", most=31),
    Page("Tasks: a queue", _TASKS, "queue=mail", most=25),
    Page("Tasks: search for a number", _TASKS, "q=000004711", most=27),
    Page("Tasks: search for the beginning of a number", _TASKS, "q=000004", most=26),
    Page("Tasks: search for code/number", _TASKS, "q=mail/00000", most=26),
    Page("Tasks: search for what is not there", _TASKS, "q=nothing-of-the-kind", most=23),
    Page("Tasks: paused", _TASKS, "status__exact=3", most=20),
    Page("Tasks: running", _TASKS, "status__exact=1", most=19),
    Page("Tasks: due", _TASKS, "due=due", most=22),
    Page("Tasks: late", _TASKS, "due=late", most=24),
    Page("Tasks: late of a small code", _TASKS, "due=late&biz_code=legacy", most=20),
    Page("Tasks: in the future", _TASKS, "due=future", most=22),
    Page("Tasks: recurring", _TASKS, "recurring=1", most=19),
    Page("Tasks: recurring of a code", _TASKS, "recurring=1&biz_code=order_timeout", most=17),
    Page("Tasks: of a worker", _TASKS, "worker={worker}", most=19),
    Page("Tasks: stuck", _TASKS, "stuck=1", most=20),
    Page("Tasks: an exception", _TASKS, "exception=ConnectionError", most=22),
    Page("Tasks: an exception that is not there", _TASKS, "exception=NoSuchError", most=19),
    Page("Tasks: a text in the error", _TASKS, "error=bank.refund", most=22),
    Page("Tasks: a text that is in no error", _TASKS, "error=nothing-of-the-kind", most=19),
    Page("Tasks: failed in the last 10 minutes", _TASKS, "since={ten_minutes_ago}", most=19),
    Page("Tasks: failed in the last 7 days", _TASKS, "since={a_week_ago}", most=22),
    Page("Tasks: a queue that is not there", _TASKS, "queue=typo", most=16),
    Page("Tasks: a part of a number of a code", _TASKS, "biz_code=order_timeout&q=4711", most=17),
    Page(
        "Tasks: a part that no number of a code has",
        _TASKS,
        "biz_code=order_timeout&q=nothing",
        most=17,
    ),
    Page("Tasks: requeue all that failed?", "django_tasks_task_bulk", "step=requeue", most=9),
    Page(
        "Tasks: cancel all of a code?",
        "django_tasks_task_bulk",
        "step=cancel&biz_code=mail",
        most=12,
    ),
    Page("Tasks: run all late now?", "django_tasks_task_bulk", "step=run_now&due=late", most=17),
    Page("Failures", "django_tasks_failures", most=7),
    Page("Recurring", "django_tasks_recurring", most=53),
    Page("Recurring: one code", "django_tasks_recurring", "code=order_timeout", most=10),
    Page("A task: failed", "django_tasks_task_change", place="{failed}", most=9),
    Page("A task: running", "django_tasks_task_change", place="{running}", most=8),
    Page("A task: late", "django_tasks_task_change", place="{late}", most=8),
    Page("A task: in the future", "django_tasks_task_change", place="{future}", most=8),
    Page("A task: recurring", "django_tasks_task_change", place="{recurring}", most=8),
    Page("A task: run it now?", "django_tasks_task_run_now", place="{late}", most=6),
    Page("A task: requeue it?", "django_tasks_task_requeue", place="{failed}", most=6),
    Page("A task: delete", "django_tasks_task_delete", place="{failed}", most=6),
    Page("A task: add", "django_tasks_task_add", most=5),
    Page("Runs", _RUNS, most=29),
    Page("Runs: the next page", _RUNS, "p=after-{middle_run}", most=29),
    Page("Runs: the previous page", _RUNS, "p=before-{middle_run}", most=29),
    Page("Runs: failed", _RUNS, "outcome__exact=failed", most=30),
    Page("Runs: a code of half of the rows", _RUNS, "biz_code=order_timeout", most=30),
    Page("Runs: a small code", _RUNS, "biz_code=legacy", most=30),
    Page("Runs: of one task", _RUNS, "biz_code=nightly&biz_num=report-000000001", most=28),
    Page("Runs: search for a number", _RUNS, "q=000004711", most=50),
    Page("Runs: an outcome that is not there", _RUNS, "outcome__exact=lost", most=29),
    Page("Runs: search for what is not there", _RUNS, "q=nothing-of-the-kind", most=51),
    Page("A run", "django_tasks_taskrun_change", place="{run}", most=7),
    Page("Workers", "django_tasks_workerrow_changelist", most=10),
    Page("A worker", "django_tasks_workerrow_change", place="{worker}", most=9),
    Page("Pauses", "django_tasks_pause_changelist", most=8),
    Page("A pause: add", "django_tasks_pause_add", most=6),
    Page("Locks", "django_tasks_lock_changelist", most=7),
)


def rows_to_look_at() -> dict[str, Any]:
    """Ids of rows of each kind that a page is about; some row where there is none of a kind."""
    now = clock.now("default")
    tasks = Task._base_manager.order_by("pk").values_list("pk", flat=True)
    runs = TaskRun._base_manager.order_by("-pk").values_list("pk", flat=True)
    first = tasks.first() or 0
    kinds = {
        "failed": tasks.filter(pk__lte=100_000, status=Status.FAILED).first(),
        "running": tasks.filter(pk__lte=100_000, status=Status.RUNNING).first(),
        "late": tasks.filter(pk__gt=5).first(),
        "future": tasks.filter(pk__gt=5).first(),
        "recurring": tasks.order_by("-pk").first(),
        "run": runs.first(),
        "middle": _middle(tasks),
        "middle_run": _middle(runs),
        "worker": WorkerRow._base_manager.order_by("pk").values_list("pk", flat=True).first(),
    }
    times = {
        "ten_minutes_ago": (now - timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "a_week_ago": (now - timedelta(days=7)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return times | {kind: pk or first for kind, pk in kinds.items()}


def _middle(ids: "QuerySet[Any, int]") -> int | None:
    """The id of a row with as many before it as behind it, or nearly so."""
    ends = sorted(filter(None, (ids.first(), ids.last())))
    return ids.filter(pk__gte=sum(ends) // 2).order_by("pk").first() if ends else None
