"""The tasks of a list's URL, and the URL of a list of tasks."""

from collections.abc import Mapping
from dataclasses import fields

from django.contrib.admin.views.main import ERROR_FLAG, IGNORED_PARAMS, PAGE_VAR
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_tasks.exceptions import TaskValueError
from django_tasks.monitoring.filters import TaskFilter

# The names in a URL, those of Django's own filters, where a TaskFilter has others.
URL_NAMES = {"status": "status__exact", "code": "biz_code", "number": "biz_num", "search": "q"}
_FIELDS = {each.name for each in fields(TaskFilter)}
_KNOWN = (
    {name: name for name in _FIELDS}
    | {f"{name}__exact": name for name in ("queue",)}
    | {"biz_code__exact": "code", "biz_num__exact": "number"}
    | {name: field for field, name in URL_NAMES.items()}
)
_OTHERS = {*IGNORED_PARAMS, PAGE_VAR, ERROR_FLAG, "_changelist_filters"}


def tasks_of(query: Mapping[str, str]) -> TaskFilter:
    """The tasks that the query of a URL means. Raises TaskValueError.

    A name that is no filter is refused: its list would show, and its actions meet, all tasks.
    """
    params: dict[str, str] = {}
    for name, value in query.items():
        if name in _KNOWN:
            params[_KNOWN[name]] = value
        elif name not in _OTHERS:
            raise TaskValueError(_("filter"), name, _("is not known"))
    return TaskFilter.from_params(params)


def query_of(tasks: TaskFilter) -> dict[str, str]:
    """The query of a URL that means these tasks."""
    query = {URL_NAMES.get(name, name): value for name, value in tasks.params().items()}
    if tasks.status is not None:
        query[URL_NAMES["status"]] = str(int(tasks.status))
    return query


def list_of(tasks: TaskFilter, site: str = "admin") -> str:
    """The address of the list of these tasks."""
    return _address("django_tasks_task_changelist", site, query_of(tasks))


def refused_list(site: str = "admin") -> str:
    """The address of an empty list, for a filter, a step or a form that was refused."""
    return _address("django_tasks_task_changelist", site, {ERROR_FLAG: "1"})


def bulk_of(tasks: TaskFilter, step: str, site: str = "admin") -> str:
    """The address of the page that asks before all these tasks are changed."""
    return _address("django_tasks_task_bulk", site, {"step": step} | query_of(tasks))


def _address(name: str, site: str, query: dict[str, str]) -> str:
    address = reverse(f"{site}:{name}")
    return f"{address}?{urlencode(query)}" if query else address
