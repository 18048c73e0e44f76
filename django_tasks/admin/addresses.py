"""The tasks of a list's URL, and the URL of a list of tasks."""

from collections.abc import Mapping
from dataclasses import fields

from django.contrib.admin.views.main import ERROR_FLAG, IGNORED_PARAMS, PAGE_VAR
from django.utils.translation import gettext as _

from django_tasks.admin.site import address_of
from django_tasks.exceptions import TaskValueError
from django_tasks.reads.filters import TaskFilter

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
    return TaskFilter.from_params(known(query, _KNOWN))


def known(query: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The values of a query by our own names of its filters. Raises TaskValueError for others."""
    for name in query.keys() - names.keys() - _OTHERS:  # an empty one as well
        raise TaskValueError(_("filter"), name, _("is not known"))
    return {names[name]: value for name, value in query.items() if name in names}


def query_of(tasks: TaskFilter) -> dict[str, str]:
    """The query of a URL that means these tasks."""
    query = {URL_NAMES.get(name, name): value for name, value in tasks.params().items()}
    if tasks.status is not None:
        query[URL_NAMES["status"]] = str(int(tasks.status))
    return query


def list_of(tasks: TaskFilter, site: str = "admin") -> str:
    """The address of the list of these tasks."""
    return address_of(site, "django_tasks_task_changelist", **query_of(tasks))


def refused_list(site: str = "admin") -> str:
    """The address of an empty list, for a filter, a step or a form that was refused."""
    return address_of(site, "django_tasks_task_changelist", **{ERROR_FLAG: "1"})


def bulk_of(tasks: TaskFilter, step: str, site: str = "admin") -> str:
    """The address of the page that asks before all these tasks are changed."""
    return address_of(site, "django_tasks_task_bulk", step=step, **query_of(tasks))
