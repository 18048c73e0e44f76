"""The common part of the lists: their rows, how they count and find them; the log of changes."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_permission_codename
from django.core.paginator import Paginator
from django.db import models, router
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import translation
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks.exceptions import TaskException, TaskValueError
from django_tasks.models import Task

if TYPE_CHECKING:
    ModelAdminOfAny = admin.ModelAdmin[Any]
    AnyPaginator = Paginator[Any]
    AnyModelForm = forms.ModelForm[Any]
else:
    ModelAdminOfAny = admin.ModelAdmin
    AnyPaginator = Paginator
    AnyModelForm = forms.ModelForm

# The lists count no further: counting millions of rows for every page view takes seconds.
LIST_LIMIT = 10_000
MOST_CHOICES = 100  # of a filter

SEARCHED = ("biz_code", "biz_num")
SEARCH_HELP = _("A code, the beginning of a number, or code/number.")


def alias() -> str:
    """The database that holds the tasks, and the workers beside them."""
    return router.db_for_write(Task)


def may(request: HttpRequest, action: str) -> bool:
    """Tell if the user may do this to tasks."""
    codename = get_permission_codename(action, Task._meta)
    return request.user.has_perm(f"{Task._meta.app_label}.{codename}")


def refused(request: HttpRequest, error: TaskException) -> IncorrectLookupParameters:
    """Say what is wrong with a URL; Django shows no rows for what is to be raised."""
    messages.error(request, str(error))
    return IncorrectLookupParameters(str(error))


class Unfiltered(ChangeList):
    """A list without filters: a URL that names one is refused in words.

    Django would compare the column with it, and some values stop the database's driver.
    """

    def get_filters(self, request: HttpRequest) -> Any:
        for name in self.get_filters_params():
            error = TaskValueError(gettext("filter"), name, gettext("is not known"))
            raise refused(request, error)
        return super().get_filters(request)


def sees_workers(request: HttpRequest) -> bool:
    """Tell if the pages of workers, and their names on other pages, are for this user."""
    return request.user.has_perm("django_tasks.view_workerrow")


class NothingToEdit(ModelAdminOfAny):
    """Pages on which no row is added, changed or deleted."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class OnlyShown(NothingToEdit):
    """Rows that nobody edits here: most are written by the processes that they describe."""

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        return super().get_queryset(request).using(alias())

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return Unfiltered

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Django's own lets in whoever may change rows, which nobody does here.
        return request.user.has_perm(f"django_tasks.view_{self.opts.model_name}")


class LimitedPaginator(AnyPaginator):
    """Pages of at most LIST_LIMIT rows: the database never counts further."""

    @cached_property
    def count(self) -> int:
        return counted(self.object_list)  # type: ignore[arg-type]


class ValuesFilter(admin.SimpleListFilter):
    """The values of a column that exist, found by one seek of an index each."""

    column: ClassVar[str]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = sorted(set(self.values(model_admin.model._base_manager.using(alias()))))
        return [(value, value) for value in found]

    def values(self, rows: "QuerySet[Any]") -> Iterator[str]:
        return hopping(rows, self.column)

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset  # the list sifts by itself


class CodeFilter(ValuesFilter):
    title = _("code")
    parameter_name = column = "biz_code"


def key_matching(term: str) -> Q:
    """A whole code, the beginning of a number, or code/beginning: a walk sees them."""
    code, slash, number = term.partition("/")
    wanted = Q(biz_code=term) | Q(biz_num__startswith=term)
    if slash:
        wanted |= Q(biz_code=code, biz_num__startswith=number)
    return wanted


def counted(rows: "QuerySet[Any]") -> int:
    # values(): without the workers' names, which MariaDB would look up for every row it counts.
    return rows.order_by().values("pk")[:LIST_LIMIT].count()


def counted_beyond(rows: "QuerySet[Any]") -> int:
    """Count up to one more than LIST_LIMIT."""
    return rows.order_by().values("pk")[: LIST_LIMIT + 1].count()


def hopping(rows: "QuerySet[Any]", column: str) -> Iterator[str]:
    """Distinct values of a column, each asked for as the next one after the last."""
    values = rows.order_by(column).values_list(column, flat=True)
    value = values.first()
    for _place in range(MOST_CHOICES):
        if value is None:
            return
        yield value
        value = values.filter(**{f"{column}__gt": value}).first()


# Words that are made when the language is known.
Say = Callable[[], object]


def in_project_words(say: Say) -> str:
    """Say something in the project's language: a row has one text for readers of all languages."""
    with translation.override(settings.LANGUAGE_CODE):
        return str(say())


def note(request: HttpRequest, rows: Sequence[models.Model], flag: int, say: Say) -> None:
    """Write who did what into the log, a line for each row."""
    if rows:
        words = in_project_words(say)
        LogEntry.objects.log_actions(str(request.user.pk), rows, flag, words)
