"""The pages of runs that have ended."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_tasks.admin.display import duration, exact, shown, time_and_distance
from django_tasks.admin.lists import (
    SEARCH_HELP,
    SEARCHED,
    CodeFilter,
    LimitedPaginator,
    OnlyShown,
    with_key,
)
from django_tasks.models import TaskRun


@admin.register(TaskRun)
class RunAdmin(OnlyShown):
    """Ended runs, also of tasks whose rows are gone. Workers write them."""

    list_display = ("key", "outcome_word", "due", "late", "took", "attempt", "worker")
    list_filter = ("outcome", CodeFilter)
    ordering = ("-id",)  # the last ones first; the history has no index by time
    paginator = LimitedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    search_fields = SEARCHED
    search_help_text = SEARCH_HELP
    fields = (
        *("biz_code", "biz_num", "outcome_word", "missed", "due_at", "meant_for"),
        *("started_at", "late", "ended_at", "took", "attempt", "worker", "error_text"),
    )

    class Media:
        css = {"all": ("django_tasks/admin.css",)}

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[TaskRun]", search_term: str
    ) -> tuple["QuerySet[TaskRun]", bool]:
        return with_key(queryset.defer("error"), search_term), False

    @admin.display(description=_("code, number"), ordering="biz_code")
    def key(self, run: TaskRun) -> str:
        return format_html("{}<br>{}", run.biz_code, run.biz_num)

    @admin.display(description=_("outcome"))
    def outcome_word(self, run: TaskRun) -> str:
        missed = f" ({run.missed})" if run.missed else ""
        return format_html(
            '<span class="task-run-{}">{}</span>{}',
            run.outcome,
            run.get_outcome_display(),
            missed,
        )

    @admin.display(description=_("when"))
    def due(self, run: TaskRun) -> str:
        return time_and_distance(run.when)

    @admin.display(description=_("late"))
    def late(self, run: TaskRun) -> str:
        return duration(run.lateness)

    @admin.display(description=_("took"))
    def took(self, run: TaskRun) -> str:
        return duration(run.duration)

    @admin.display(description=_("when"))
    def due_at(self, run: TaskRun) -> str:
        return exact(run.when)

    @admin.display(description=_("scheduled time"))
    def meant_for(self, run: TaskRun) -> str:
        return exact(run.scheduled_time) if run.scheduled_time else self.get_empty_value_display()

    @admin.display(description=_("started"))
    def started_at(self, run: TaskRun) -> str:
        return exact(run.started)

    @admin.display(description=_("ended"))
    def ended_at(self, run: TaskRun) -> str:
        return exact(run.ended)

    @admin.display(description=_("error"))
    def error_text(self, run: TaskRun) -> str:
        return shown(run.error, run.error) if run.error else self.get_empty_value_display()
