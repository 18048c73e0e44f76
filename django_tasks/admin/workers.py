"""The pages of workers: who is there, what each runs, and what it is asked to do."""

from typing import Any, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_tasks.admin import site
from django_tasks.admin.display import cell
from django_tasks.admin.lists import alias, may, note
from django_tasks.client.operating import ask_worker
from django_tasks.models import WorkerRow
from django_tasks.reads.words import at, listed, memory, span, state_words
from django_tasks.reads.workers import Claim, WorkerState, claims, worker_of
from django_tasks.store import clock
from django_tasks.timezones import aware
from django_tasks.values.status import RunOutcome, WorkerWish

MOST_SHOWN = 100  # tasks on a worker's page


class Ask(NamedTuple):
    """Something that a worker can be asked: the question, what it will do, and the answer."""

    wish: WorkerWish
    button: Any
    question: Any
    effect: Any
    asked: Any


# The counters that a worker of this release writes; those of another are shown by their names.
_COUNTED: dict[str, Any] = {
    **{outcome.value: outcome.label for outcome in RunOutcome},
    "given back": _("given back"),
    "missed": _("missed"),
}

ASKS = {
    "quiet": Ask(
        WorkerWish.QUIET,
        _("Go quiet"),
        _("Ask %(worker)s to go quiet?"),
        _("It claims nothing more until it is asked to work again. What runs in it goes on."),
        _("Worker %(worker)s was asked to go quiet."),
    ),
    "stop": Ask(
        WorkerWish.STOP,
        _("Stop"),
        _("Ask %(worker)s to stop?"),
        _(
            "It claims nothing more, gives back what has not started, and ends when nothing runs"
            " in it any more. This cannot be taken back once it has heard of it."
        ),
        _("Worker %(worker)s was asked to stop."),
    ),
    "work": Ask(
        WorkerWish.NONE,
        _("Work again"),
        _("Ask %(worker)s to work again?"),
        _("It claims tasks again."),
        _("Worker %(worker)s was asked to work again."),
    ),
}


class WorkerAdmin(site.CardPages):
    """Workers that poll the database. They write their rows: there is nothing to edit."""

    list_display = (
        "name_and_place",
        "alive",
        "state_words",
        "last_heartbeat",
        "in_hand",
        "busy_threads",
        "memory_used",
        "version",
        "queue_names",
        "code_count",
        "asking",
    )
    fields = (
        "name",
        "host",
        "pid",
        "version",
        "state_words",
        "started_at",
        "last_heartbeat",
        "lease",
        "busy_threads",
        "memory_used",
        "queue_names",
        "code_names",
        "numbers",
    )
    ordering = ("id",)
    change_form_template = "admin/django_tasks/workerrow/change_form.html"

    def get_urls(self) -> list[URLPattern]:
        ask = self.admin_site.admin_view(site.strict(self.ask))
        name = "django_tasks_workerrow_ask"
        return [path("<int:worker_id>/ask/<slug:word>/", ask, name=name), *super().get_urls()]

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        columns = self.list_display
        return columns if may(request, "operate") else columns[:-1]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The list, whose rows know what each worker has claimed: from one statement for all."""
        found = super().get_changelist_instance(request)
        if may(request, "view"):
            claimed: dict[int | None, list[Claim]] = {}
            for claim in claims(using=alias()).rows:
                claimed.setdefault(claim.worker, []).append(claim)
            for row in found.result_list:
                row.claims = claimed.get(row.pk, [])
        return found

    # What is shown

    @admin.display(description=_("name"), ordering="name")
    def name_and_place(self, row: WorkerRow) -> str:
        if not row.host:
            return row.name
        words = gettext("%(host)s, process %(pid)d") % {"host": row.host, "pid": row.pid}
        template = '{}<br><span class="small quiet">{}</span>'
        return format_html(template, row.name, words)

    @admin.display(description=_("in its hands"))
    def in_hand(self, row: WorkerRow) -> str:
        found: list[Claim] = getattr(row, "claims", [])
        if not found:
            return self.get_empty_value_display()
        words = ngettext("%(count)d task", "%(count)d tasks", len(found)) % {"count": len(found)}
        if found[0].since is None:
            return words
        waited = (clock.now(alias()) - found[0].since).total_seconds()
        longest = gettext("the longest %(time)s") % {"time": span(max(0.0, waited))}
        return format_html('{}<br><span class="small quiet">{}</span>', words, longest)

    @admin.display(description=_("alive"), boolean=True)
    def alive(self, row: WorkerRow) -> bool:
        return _seen(row).is_alive

    @admin.display(description=_("state"))
    def state_words(self, row: WorkerRow) -> str:
        worker = _seen(row)
        if not worker.is_alive:
            return gettext("silent")
        if worker.wish == WorkerWish.QUIET:
            return gettext("quiet")
        if worker.wish == WorkerWish.STOP:
            return gettext("asked to stop")
        return state_words(worker.state)

    @admin.display(description=_("heartbeat"), ordering="heartbeat")
    def last_heartbeat(self, row: WorkerRow) -> str:
        worker = _seen(row)
        words = gettext("%(time)s ago") % {"time": span(max(0.0, worker.silent))}
        if not worker.is_late:
            return words
        late = gettext("%(time)s late") % {"time": span(worker.late)}
        return format_html('{}<br><span class="task-bad">{}</span>', words, late)

    @admin.display(description=_("threads"))
    def busy_threads(self, row: WorkerRow) -> str:
        words = gettext("%(free)d of %(threads)d are free")
        return words % {"free": _seen(row).free, "threads": row.threads}

    @admin.display(description=_("memory"))
    def memory_used(self, row: WorkerRow) -> str:
        return memory(row.memory) if row.memory else self.get_empty_value_display()

    @admin.display(description=_("started"))
    def started_at(self, row: WorkerRow) -> str:
        now = clock.now(alias())
        started = aware("started", row.started)
        words = {
            "moment": at(started, now),
            "time": span(max(0.0, (now - started).total_seconds())),
        }
        return gettext("%(moment)s, %(time)s ago") % words

    @admin.display(description=_("queues"))
    def queue_names(self, row: WorkerRow) -> str:
        return cell(listed(_seen(row).queues)) or gettext("all")

    @admin.display(description=_("codes"))
    def code_names(self, row: WorkerRow) -> str:
        codes = _seen(row).codes
        if codes is None:
            return self.get_empty_value_display()
        return cell(listed(sorted(codes))) or gettext("none")

    @admin.display(description=_("codes"))
    def code_count(self, row: WorkerRow) -> str:
        codes = _seen(row).codes
        return self.get_empty_value_display() if codes is None else str(len(codes))

    @admin.display(description=_("counters"))
    def numbers(self, row: WorkerRow) -> str:
        counters = row.counters if isinstance(row.counters, dict) else {}
        told = [(str(_COUNTED.get(name, name)), count) for name, count in sorted(counters.items())]
        return cell(listed(f"{name} {count}" for name, count in told))

    @admin.display(description=_("ask it to"))
    def asking(self, row: WorkerRow) -> str:
        links = [
            format_html('<a href="{}">{}</a>', self._address(row.pk, word), ask.button)
            for word, ask in _asks(_seen(row))
        ]
        template = "<br>".join(["{}"] * len(links))
        return format_html(template, *links) if links else self.get_empty_value_display()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context = dict(extra_context or {})
        if row is not None and self.has_view_permission(request, row):
            context |= self._tasks_of(request, row)
            if may(request, "operate"):
                asks = _asks(_seen(row))
                context["asks"] = [(self._address(row.pk, word), ask) for word, ask in asks]
        return super().change_view(request, object_id, form_url, context)

    def _tasks_of(self, request: HttpRequest, row: WorkerRow) -> dict[str, Any]:
        if not may(request, "view"):
            return {}
        found = claims(using=alias(), worker=row.pk)
        return {
            "claims": [
                (claim, self.address("django_tasks_task_change", claim.id))
                for claim in found.rows[:MOST_SHOWN]
            ],
            "claimed": found.count(),
            "all_claims": self.address("django_tasks_task_changelist", worker=row.pk),
            "is_cut": len(found.rows) > MOST_SHOWN or found.is_more,
            "now": clock.now(alias()),
        }

    # What it is asked

    def _address(self, worker_id: int, word: str) -> str:
        return self.address("django_tasks_workerrow_ask", worker_id, word)

    def ask(self, request: HttpRequest, worker_id: int, word: str) -> HttpResponse:
        """Ask for confirmation, then ask the worker."""
        if not (may(request, "operate") and self.has_view_permission(request)):
            raise PermissionDenied
        row = self.get_queryset(request).filter(pk=worker_id).first()
        if row is None or word not in ASKS:
            raise Http404
        ask, names = ASKS[word], {"worker": row.name}
        page = self.address("django_tasks_workerrow_change", row.pk)
        if request.method != "POST":
            sentences = [str(ask.effect), self._when(row)]
            title = ask.question % names
            return self.confirm(request, title, sentences, button=ask.button, back=page)
        if ask_worker(row.pk, ask.wish, using=alias()):
            note(request, [row], CHANGE, lambda: ask.asked % names)
            return self.go(request, page, ask.asked % names, messages.SUCCESS)
        text = gettext("Worker %(worker)s is gone.") % names
        workers = self.address("django_tasks_workerrow_changelist")
        return self.go(request, workers, text, messages.WARNING)

    def _when(self, row: WorkerRow) -> str:
        if not _seen(row).is_alive:
            return gettext("It is silent, and may never hear of it.")
        words = gettext("It hears of it with its next heartbeat, in %(time)s at most.")
        return words % {"time": span(row.lease / 3)}


def _seen(row: WorkerRow) -> WorkerState:
    return worker_of(row, clock.now(alias()))


def _asks(worker: WorkerState) -> list[tuple[str, Ask]]:
    words = {
        WorkerWish.NONE: ("quiet", "stop"),
        WorkerWish.QUIET: ("work", "stop"),
        WorkerWish.STOP: (),
    }
    known = worker.wish if worker.wish in WorkerWish.values else WorkerWish.NONE
    return [(word, ASKS[word]) for word in words[WorkerWish(known)]]
