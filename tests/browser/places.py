"""Pages of the admin, each of which everybody looks at."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.browser.night import Night
from tests.browser.windows import LOOKS, NARROW, NARROW_DARK, WIDE, WIDE_DARK, Look


class Place(NamedTuple):
    """A page of the admin: the name of its URL, what it is about, and its query.

    ``kept``: the windows in which the documentation shows it, from the ``part`` of this id on;
    ``kept_in_chinese``: those in which it shows the page in Chinese.
    """

    name: str
    about: Callable[[Night], tuple[Any, ...]] = lambda night: ()
    query: dict[str, Any] = {}
    kept: tuple[Look, ...] = ()
    part: str = ""
    kept_in_chinese: tuple[Look, ...] = ()


PLACES = {
    "index": Place("index"),
    "dashboard": Place("django_tasks_dashboard", kept=LOOKS, kept_in_chinese=(WIDE, NARROW)),
    "charts": Place(
        "django_tasks_dashboard", query={"span": "day"}, kept=(WIDE, NARROW_DARK), part="task-speed"
    ),
    "tasks": Place(
        "django_tasks_task_changelist", kept=(WIDE, NARROW), kept_in_chinese=(WIDE, NARROW)
    ),
    "tasks-late": Place("django_tasks_task_changelist", query={"due": "late"}),
    "tasks-failed": Place("django_tasks_task_changelist", query={"status__exact": 2}, kept=(WIDE,)),
    "task-failed": Place(
        "django_tasks_task_change",
        lambda n: (n.invoice.pk,),
        kept=(WIDE, NARROW),
        kept_in_chinese=(WIDE,),
    ),
    "task-running": Place("django_tasks_task_change", lambda n: (n.running_one.pk,)),
    "task-recurring": Place("django_tasks_task_change", lambda n: (n.nightly.pk,)),
    "task-cancel": Place("django_tasks_task_cancel", lambda n: (n.running_one.pk,)),
    "task-delete": Place("django_tasks_task_delete", lambda n: (n.running_one.pk,)),
    "task-history": Place("django_tasks_task_history", lambda n: (n.invoice.pk,)),
    "task-reschedule": Place(
        "django_tasks_task_reschedule", lambda n: (n.waiting_one.pk,), kept=(WIDE,)
    ),
    "task-run-now": Place("django_tasks_task_run_now", lambda n: (n.waiting_one.pk,)),
    "task-pause": Place("django_tasks_task_pause", lambda n: (n.waiting_one.pk,)),
    "task-resume": Place("django_tasks_task_resume", lambda n: (n.paused_one.pk,)),
    "task-requeue": Place("django_tasks_task_requeue", lambda n: (n.invoice.pk,)),
    "task-new": Place("django_tasks_task_add"),
    "bulk": Place(
        "django_tasks_task_bulk",
        query={"step": "cancel", "biz_code": "cancel_unpaid"},
        kept=(WIDE,),
        kept_in_chinese=(WIDE,),
    ),
    "bulk-move": Place("django_tasks_task_bulk", query={"step": "move", "biz_code": "refund"}),
    "failures": Place(
        "django_tasks_failures", kept=(WIDE, NARROW_DARK), kept_in_chinese=(WIDE, NARROW)
    ),
    # Where one is led that asked for what is no filter: the list is empty, and says so.
    "tasks-refused": Place("django_tasks_task_changelist", query={"e": 1}),
    "recurring": Place("django_tasks_recurring", kept=(WIDE,), kept_in_chinese=(WIDE,)),
    "schedule": Place(
        "django_tasks_recurring_schedule",
        query={"schedule": "cron 30 2 * * * Europe/Berlin"},
        kept=(WIDE,),
    ),
    "codes": Place("django_tasks_codes", kept=(WIDE,), kept_in_chinese=(WIDE,)),
    "code": Place("django_tasks_code", query={"code": "send_invoice"}, kept=(WIDE_DARK,)),
    "code-pause": Place("django_tasks_code_pause", query={"code": "send_invoice"}),
    "workers": Place("django_tasks_workerrow_changelist", kept=(WIDE,), kept_in_chinese=(WIDE,)),
    "worker": Place("django_tasks_workerrow_change", lambda n: (n.first.pk,)),
    "worker-quiet": Place("django_tasks_workerrow_ask", lambda n: (n.first.pk, "quiet")),
    "worker-stop": Place("django_tasks_workerrow_ask", lambda n: (n.silent.pk, "stop")),
    "worker-history": Place("django_tasks_workerrow_history", lambda n: (n.first.pk,)),
    "runs": Place("django_tasks_taskrun_changelist"),
    "run": Place("django_tasks_taskrun_change", lambda n: (n.last_run.pk,)),
    "pauses": Place("django_tasks_pause_changelist"),
    "pause-new": Place("django_tasks_pause_add"),
    "pause-resume": Place("django_tasks_pause_resume", lambda n: (n.pause.pk,)),
    "pause-history": Place("django_tasks_pause_history", lambda n: (n.pause.pk,)),
    "locks": Place("django_tasks_lock_changelist"),
    "lock": Place("django_tasks_lock_change", lambda n: (n.lock.pk,)),
}
