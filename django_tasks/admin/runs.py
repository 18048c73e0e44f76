"""The pages of runs that have ended."""

import json
from typing import Any

from django.contrib import admin
from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from django_tasks.admin.addresses import known
from django_tasks.admin.display import (
    ERROR_TAIL,
    LONG_TEXT,
    badge,
    duration,
    in_brackets,
    key_of,
    labelled,
    moment_and_distance,
    moment_field,
    shown,
)
from django_tasks.admin.filters import TaskCodeFilter, TextFilter, chosen_filter
from django_tasks.admin.lists import (
    SEARCH_HELP,
    SEARCHED,
    OnlyShown,
    alias,
    hopping,
    key_matching,
    refused,
    sees_workers,
)
from django_tasks.admin.pages import Page, PagedList, in_order, place_of, walked
from django_tasks.admin.site import StrictPages
from django_tasks.exceptions import TaskException
from django_tasks.models import TaskRun
from django_tasks.reads.filters import TaskFilter, none_of
from django_tasks.reads.looks import without_index
from django_tasks.reads.words import Amount, error_line
from django_tasks.store import clock, search
from django_tasks.values.status import RunOutcome

# The history has indexes of ids and of keys alone. Whatever else is asked for is looked for among
# so many runs at a time, along their ids.
STRETCH = 100_000


def _outcomes() -> list[tuple[str, Any]]:
    return list(RunOutcome.choices)


class RunExceptionFilter(TextFilter):
    title = _("exception")
    parameter_name = "exception"
    help_text = _("A class, such as ConnectionError.")


RUN_FILTERS: tuple[type[admin.SimpleListFilter], ...] = (
    chosen_filter("outcome", _("outcome"), _outcomes),
    TaskCodeFilter,
    RunExceptionFilter,
)
_COLUMNS = ("outcome", "biz_code", "biz_num")
_NAMES = {f"{name}{exact}": name for name in _COLUMNS for exact in ("", "__exact")}


class RunList(PagedList):
    """Ended runs, the last ones first.

    With a key, or with no filter, an index serves. Otherwise one page looks at STRETCH runs,
    shows what is found among them, and has a link to look further back. ``looked_at``: the number
    of runs that it has looked at, if not at all.
    """

    looked_at = 0
    further = ""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> "QuerySet[Any]":
        try:
            query = _query_of(request)
        except TaskException as error:
            raise refused(request, error) from error
        searched = {"q": self.query} if self.query.strip() else {}
        self.choose(request, query | searched, RUN_FILTERS)
        self.clear_all_filters_qs = self.get_query_string(remove=sorted(query))
        self.sifting = _matching(query)
        found = self.root_queryset.filter(self.sifting).defer("error", "detail")
        by_key = {"biz_code", "biz_num"} <= query.keys()
        self.is_sifted = bool(query) and not by_key
        if searched and (keyed := found.filter(_with_key(self.query.strip()))).exists():
            found, self.is_sifted = keyed, False
        elif searched:
            self.sifting &= key_matching(self.query.strip())
            found, self.is_sifted = self.root_queryset.filter(self.sifting), not by_key
        return found.order_by("-id")

    def page(self, text: str) -> Page:
        if not self.is_sifted:
            return super().page(text)
        newest = self.root_queryset.order_by().aggregate(newest=Max("id"))["newest"] or 0
        place = place_of(text, 1)
        if place is None or not place.is_after:
            place = None
        start = newest if place is None else min(place.key[0] - 1, newest)
        end = max(0, start - STRETCH)
        ids = self.root_queryset.filter(id__lte=start, id__gt=end)
        stretch = ids.filter(without_index(self.sifting)).order_by("-id")
        page = walked(stretch, None, self.list_per_page)
        self.looked_at = start - end
        self.result_count = len(page.keys)
        # Ids may begin anywhere: the history is cut.
        is_older = self.root_queryset.filter(id__lte=end).order_by().exists()
        self.is_more = page.has_after or is_older
        if page.has_after or not is_older:
            return Page(page.keys, False, page.has_after)
        self.further = self.get_query_string({"p": f"after-{end + 1}"})
        return Page(page.keys)

    def rows_of(self, ids: list[int]) -> list[TaskRun]:
        rows = self.root_queryset.filter(pk__in=ids).defer("error", "detail").order_by()
        return in_order(ids, rows.annotate(error_tail=Right("error", ERROR_TAIL)))

    def count_words(self) -> str:
        if not self.is_sifted:
            return _number_of_runs(self.result_count, self.is_more)
        facts = {
            "runs": _number_of_runs(self.result_count, False),
            "number": Amount(self.looked_at),
        }
        return gettext("%(runs)s found among up to %(number)s") % facts


def _with_key(term: str) -> Q:
    """Runs of a code and the beginning of a number, or of a whole number in any code.

    The index of keys has these.
    """
    codes = list(hopping(TaskRun._base_manager.using(alias()), "biz_code"))
    wanted = Q(biz_code__in=codes, biz_num=term)
    code, slash, number = term.partition("/")
    return (
        wanted | (Q(biz_code=code) & search.beginning(number, using=alias())) if slash else wanted
    )


def _number_of_runs(count: int, is_more: bool) -> str:
    text = gettext("%(number)s run") if count == 1 and not is_more else gettext("%(number)s runs")
    return text % {"number": Amount(count, is_more)}


def _query_of(request: HttpRequest) -> dict[str, str]:
    query = known(request.GET.dict(), _NAMES | {"exception": "exception"})
    query = {name: value for name, value in query.items() if value}
    if query.get("outcome", "done") not in RunOutcome.values:
        raise none_of("outcome", query["outcome"], RunOutcome.values)
    # These are checked as those of tasks are.
    TaskFilter.from_params(
        {
            "code": query.get("biz_code", ""),
            "number": query.get("biz_num", ""),
            "exception": query.get("exception", ""),
            "search": request.GET.get("q", ""),
        }
    )
    return query


def _matching(query: dict[str, str]) -> Q:
    matching = Q()
    for name in _COLUMNS:
        if name in query:
            matching &= Q(**{name: query[name]})
    if exception := query.get("exception"):
        matching &= Q(exception=exception) | Q(exception__endswith=f".{exception}")
    return matching


class RunAdmin(StrictPages, OnlyShown):
    """Ended runs, also of tasks whose rows are gone. Workers write them."""

    list_display = ("key", "outcome_word", "due", "took", "failure", "on_worker")
    list_filter = RUN_FILTERS
    sortable_by = ()
    ordering = ("-id",)  # the last ones first; the history has no index by time
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    search_fields = SEARCHED
    search_help_text = SEARCH_HELP
    change_list_template = "admin/django_tasks/taskrun/change_list.html"
    fields = (
        *("biz_code", "biz_num", "outcome_word", "message", "exception_class", "missed"),
        *("due_at", "meant_for", "started_at", "late", "ended_at", "took", "attempt", "worker"),
        *("detail_text", "error_text"),
    )

    class Media:
        css = {"all": ("django_tasks/tasks.css",)}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RunList]:
        return RunList

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        columns = self.list_display
        return columns if sees_workers(request) else (*columns[:-1], "attempt")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        named = sees_workers(request)
        return tuple(name for name in self.fields if named or name != "worker")

    @admin.display(description=_("code, number"))
    def key(self, run: TaskRun) -> str:
        return key_of(run)

    @admin.display(description=_("outcome"))
    def outcome_word(self, run: TaskRun) -> str:
        word = badge(f"run-{run.outcome}", run.get_outcome_display())
        return format_html("{}{}", word, in_brackets(run.missed))

    @admin.display(description=_("when, late"))
    def due(self, run: TaskRun) -> str:
        started = gettext("%(time)s late") % {"time": duration(run.lateness)}
        return format_html(
            '{}<br><span class="task-away">{}</span>',
            moment_and_distance(run.when, clock.now(alias())),
            started,
        )

    @admin.display(description=pgettext_lazy("run", "late"))
    def late(self, run: TaskRun) -> str:
        return duration(run.lateness)

    @admin.display(description=_("took"))
    def took(self, run: TaskRun) -> str:
        return labelled(_("took"), duration(run.duration))

    @admin.display(description=_("error"), empty_value="")
    def failure(self, run: TaskRun) -> str | None:
        line = error_line(run.exception, getattr(run, "error_tail", ""))
        return format_html('<span class="task-error">{}</span>', line) if line else None

    @admin.display(description=_("attempt, worker"))
    def on_worker(self, run: TaskRun) -> str:
        where = format_html('{} <span class="task-worker">{}</span>', run.attempt, run.worker)
        return labelled(_("attempt"), where)

    # A run's own page

    @admin.display(description=_("message"))
    def message(self, run: TaskRun) -> str:
        line = error_line(run.exception, run.error[-ERROR_TAIL:])
        return format_html("<strong>{}</strong>", line) if line else self.get_empty_value_display()

    @admin.display(description=_("exception"))
    def exception_class(self, run: TaskRun) -> str:
        return run.exception or self.get_empty_value_display()

    due_at = moment_field(TaskRun, "when", "milliseconds")
    meant_for = moment_field(TaskRun, "scheduled_time", "milliseconds")
    started_at = moment_field(TaskRun, "started", "milliseconds")
    ended_at = moment_field(TaskRun, "ended", "milliseconds")

    @admin.display(description=_("detail"))
    def detail_text(self, run: TaskRun) -> str:
        if run.detail is None:
            return self.get_empty_value_display()
        text = json.dumps(run.detail, ensure_ascii=False, indent=2)
        return shown(text[:LONG_TEXT], text)

    @admin.display(description=_("error"))
    def error_text(self, run: TaskRun) -> str:
        return shown(run.error, run.error) if run.error else self.get_empty_value_display()
