"""The page of workers."""

from django.contrib import admin
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks.admin.display import cell, distance
from django_tasks.admin.lists import OnlyShown, alias
from django_tasks.models import WorkerRow
from django_tasks.store import clock
from django_tasks.timezones import aware


@admin.register(WorkerRow)
class WorkerAdmin(OnlyShown):
    """Workers that poll the database. They write their rows: there is nothing to edit."""

    list_display = fields = (
        "name",
        "state",
        "alive",
        "last_heartbeat",
        "queue_names",
        "threads",
        "numbers",
        "started",
    )
    ordering = ("id",)

    @admin.display(description=_("alive"), boolean=True)
    def alive(self, worker: WorkerRow) -> bool:
        silent = clock.now(alias()) - aware("heartbeat", worker.heartbeat)
        return silent.total_seconds() <= worker.lease

    @admin.display(description=_("heartbeat"), ordering="heartbeat")
    def last_heartbeat(self, worker: WorkerRow) -> str:
        return distance(aware("heartbeat", worker.heartbeat), clock.now(alias()))

    @admin.display(description=_("queues"))
    def queue_names(self, worker: WorkerRow) -> str:
        return cell(", ".join(map(str, worker.queues))) or gettext("all")

    @admin.display(description=_("counters"))
    def numbers(self, worker: WorkerRow) -> str:
        return cell(", ".join(f"{name} {count}" for name, count in worker.counters.items()))
