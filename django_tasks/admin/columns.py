"""The list of tasks: its rows, its order, and its columns."""

from datetime import datetime, timedelta, timezone
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ORDER_VAR
from django.db.models import QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.text import capfirst, format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin import lists
from django_tasks.admin.addresses import query_of, tasks_of
from django_tasks.admin.display import (
    ERROR_TAIL,
    badge,
    key_of,
    labelled,
    moment_and_distance,
    number_of_tasks,
)
from django_tasks.admin.failures import FailurePages
from django_tasks.admin.filters import TASK_FILTERS
from django_tasks.admin.lists import alias
from django_tasks.admin.pages import (
    Anchor,
    Key,
    Page,
    PagedList,
    in_order,
    page_of,
    place_of,
    sought,
    sought_in_lanes,
    walked,
)
from django_tasks.admin.standing import ListedState, surroundings
from django_tasks.exceptions import TaskException
from django_tasks.models import Task
from django_tasks.reads.filters import MOST_SEARCHED, TaskFilter
from django_tasks.reads.looks import look
from django_tasks.reads.words import Amount, error_line, scope_name
from django_tasks.store import clock
from django_tasks.timezones import aware
from django_tasks.values.status import Status

MOST_NAMED = 10  # pauses, above the list
# They may be long, and no list needs them.
LONG_COLUMNS = ("biz_ext", "last_error", "schedule", "options", "progress")
BY_TIME = "due"  # the column that a list can be sorted by
# The columns of the claim index behind the status, and of the unique one behind the code.
CLAIM_ORDER = ("queue", "priority", "biz_code", "when", "id")
KEY_ORDER = ("biz_num",)  # not the id as well: MariaDB would sort
# Times are compared as microseconds since then, so that none is negative.
_FIRST = datetime.min.replace(tzinfo=timezone.utc)


class TaskList(PagedList):
    """The tasks of a ``TaskFilter``, the last added first.

    ``tasks``: the filter. ``by_time``: "asc" or "desc" if they are sorted by when they are due;
    what waits for its time is so by itself. ``looked``: so many tasks were looked at, if not all.
    More than LIST_LIMIT are shown in an order that an
    index has: of one status by queue, priority, code and time; of one code by number.
    """

    tasks: TaskFilter
    by_time = ""
    looked = 0
    names_workers = False

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> "QuerySet[Any]":
        try:
            self.tasks = tasks_of(request.GET).settled(alias())
        except TaskException as error:
            raise lists.refused(request, error) from error
        self.names_workers = lists.sees_workers(request)
        query = query_of(self.tasks)
        # All pages show the same; another search, or another filter, has a meaning of its own.
        meaning = query.pop("search_as", "")
        self.of_pages = {"search_as": meaning} if meaning else {}
        self.query = query.get("q", "")
        self.choose(request, query, TASK_FILTERS, kept=("_", "o"))
        self.by_time = self._asked_order()
        self.seen_at = clock.now(alias())
        found, self.looked = look(self.tasks, using=alias(), now=self.seen_at)
        return (self.root_queryset & found).defer(*LONG_COLUMNS).order_by("-id")

    def _asked_order(self) -> str:
        asked = str(self.params.get(ORDER_VAR, ""))
        if asked.lstrip("-") == str(list(self.list_display).index(BY_TIME)):
            return "desc" if asked.startswith("-") else "asc"
        return "asc" if self.tasks.due else ""

    def get_ordering_field_columns(self) -> dict[int, Any]:
        index = list(self.list_display).index(BY_TIME)
        return {index: self.by_time} if self.by_time else {}

    def page(self, text: str) -> Page:
        limit = lists.LIST_LIMIT
        columns = ("when", "id") if self.by_time else ("id",)
        found = list(self.queryset.order_by().values_list(*columns)[: limit + 1])
        self.count(len(found))
        if self.is_more:
            self.by_time = ""
            return self._page_of_many(place_of(text, 1))
        keys: list[Key] = [_with_time(*row) for row in found] if self.by_time else found
        place = place_of(text, len(columns))
        return page_of(keys, place, self.list_per_page, descending=self.by_time != "asc")

    def _page_of_many(self, place: Anchor | None) -> Page:
        """A page in the order of the index that has what is meant.

        By ids, a page of what failed walked over all that was added since: 308 ms of a million.
        """
        tasks, size = self.tasks, self.list_per_page
        few = tasks.worker is not None or tasks.stuck or tasks.search or tasks.number
        if tasks.due or (
            (tasks.queue is not None or (tasks.code and tasks.one_status is not None)) and not few
        ):
            found = tasks.rows(using=alias(), now=self.seen_at, lanes_named=False)
            lanes = [
                (status, lane.queue, lane.priority, lane.biz_code)
                for status, lane in tasks.lanes(using=alias())
            ]
            return sought_in_lanes(self.root_queryset & found, lanes, place, size)
        if tasks.one_status is not None:
            return sought(self.queryset, CLAIM_ORDER, place, size)
        if tasks.code and tasks.worker is None and not tasks.stuck:
            return sought(self.queryset, KEY_ORDER, place, size)
        return walked(self.queryset, place, size)

    def rows_of(self, ids: list[int]) -> list[Task]:
        # By their ids alone: with a status beside, SQLite walks along all that have it.
        rows = self.root_queryset.filter(pk__in=ids).defer(*LONG_COLUMNS).order_by()
        tasks: list[Task] = in_order(ids, rows.annotate(error_tail=Right("last_error", ERROR_TAIL)))
        around = surroundings(tasks, named=self.names_workers, using=alias())
        for task in tasks:
            vars(task)["standing"] = around.of(task)
        self.now = around.now
        return tasks

    # What the template says around the table

    def hint(self) -> str:
        return self.tasks.hint()

    def words(self) -> str:
        return self.tasks.words()

    def count_words(self) -> str:
        words = number_of_tasks(self.result_count, self.is_more)
        if not self.looked:
            return words
        text = gettext("%(tasks)s among the %(number)s that were looked at: filter further")
        return text % {"tasks": words, "number": Amount(self.looked)}


def _with_time(when: datetime, pk: int) -> Key:
    return (aware("when", when) - _FIRST) // timedelta(microseconds=1), pk


class TaskColumns(FailurePages):
    """The columns of the list of tasks."""

    list_display = ("key", "state", "due", "failure", "place")
    list_display_links = ("key",)
    list_filter = TASK_FILTERS
    ordering = ("-id",)  # the order that costs nothing; "when" without a filter would sort all rows
    sortable_by = (BY_TIME,)
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    search_fields = ("biz_code", "biz_num")
    search_help_text = format_lazy(
        _(
            "A code, the beginning of a number, or code/number. Of one code, any part of a number; "
            "if it has more than {most} tasks, the beginning alone."
        ),
        most=f"{MOST_SEARCHED:,}",
    )
    change_list_template = "admin/django_tasks/task/change_list.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[TaskList]:
        return TaskList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if isinstance(changelist := context.get("cl"), TaskList):
            context["title"] = capfirst(str(self.opts.verbose_name_plural))
            if changelist.result_count:
                context["for_all"] = self.steps_for_all(request, changelist.tasks)
            context["paused"] = paused_now()
        return response

    @admin.display(description=_("code, number"))
    def key(self, task: Task) -> str:
        name = format_html('<span class="task-name">{}</span>', task.name) if task.name else ""
        return format_html("{} {}", key_of(task), name)

    @admin.display(description=_("status"))
    def state(self, task: Task) -> str:
        status, standing = Status(task.status), _standing(task)
        marks = [
            ("no-handler", standing.nobody),
            ("held", standing.paused),
            ("held", standing.limited),
        ]
        badges = [(f"status-{status.name.lower()}", str(status.label)), *marks]
        shown = format_html_join(" ", "{}", ((badge(*each),) for each in badges if each[1]))
        if not standing.worker:
            return shown
        worker = gettext("on %(worker)s") % {"worker": standing.worker}
        return format_html('{} <span class="task-worker">{}</span>', shown, worker)

    @admin.display(description=_("when"), ordering="when")
    def due(self, task: Task) -> str:
        return moment_and_distance(task.when, clock.now(alias()), _standing(task).late)

    @admin.display(description=_("last error"), empty_value="")
    def failure(self, task: Task) -> str | None:
        line = error_line(task.exception, getattr(task, "error_tail", ""))
        if not line and not task.attempts:
            return None
        text = ngettext("%(count)d failed attempt", "%(count)d failed attempts", task.attempts)
        attempts = text % {"count": task.attempts} if task.attempts else ""
        return format_html(
            '<span class="task-error">{}</span> <span class="task-attempts">{}</span>',
            line,
            attempts,
        )

    @admin.display(description=_("queue, priority"))
    def place(self, task: Task) -> str:
        return labelled(_("queue, priority"), f"{task.queue} {task.priority}")


def _standing(task: Task) -> ListedState:
    return getattr(task, "standing", ListedState())


def paused_now() -> str:
    """Say in a sentence what is paused as a whole; empty if nothing is."""
    if not (pauses := api.paused(using=alias())):
        return ""
    scopes = [scope_name(pause) for pause in pauses[:MOST_NAMED]]
    if len(pauses) > MOST_NAMED:
        left = len(pauses) - MOST_NAMED
        scopes.append(ngettext("%(count)d more", "%(count)d more", left) % {"count": left})
    return gettext("Paused now: %(scopes)s.") % {"scopes": gettext("; ").join(scopes)}
