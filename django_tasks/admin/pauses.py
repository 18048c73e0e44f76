"""The pages of what is paused as a whole."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin.display import scope_name, time_and_distance
from django_tasks.admin.lists import alias, may
from django_tasks.client.arguments import check_code, check_queue
from django_tasks.exceptions import TaskValueError
from django_tasks.models import Pause

if TYPE_CHECKING:
    PauseModelAdmin = admin.ModelAdmin[Pause]
    PauseModelForm = forms.ModelForm[Pause]
else:
    PauseModelAdmin = admin.ModelAdmin
    PauseModelForm = forms.ModelForm


class PauseForm(PauseModelForm):
    """Checks as ``pause_tasks`` does; the model refuses what is paused already."""

    class Meta:
        model = Pause
        fields = ("biz_code", "queue")
        help_texts = {"biz_code": _("Empty: every code."), "queue": _("Empty: every queue.")}

    def clean_biz_code(self) -> str:
        return self._checked("biz_code", check_code)

    def clean_queue(self) -> str:
        return self._checked("queue", check_queue)

    def _checked(self, name: str, check: Callable[[object], str]) -> str:
        value: str = self.cleaned_data[name]
        try:
            return check(value) if value else ""
        except TaskValueError as error:
            raise forms.ValidationError(capfirst(f"{error.problem}.")) from error


@admin.register(Pause)
class PauseAdmin(PauseModelAdmin):
    """Pauses of a whole. One is added and deleted; there is nothing to edit.

    The right to run tasks is the right to pause them all, and the right to see tasks that to see
    pauses.
    """

    form = PauseForm
    list_display = ("what", "begun")
    ordering = ("queue", "biz_code")

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Pause]":
        return super().get_queryset(request).using(alias())

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request, "view") or may(request, "run")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may(request, "run")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request, "run")

    def save_model(self, request: HttpRequest, obj: Pause, form: Any, change: bool) -> None:
        names = {"biz_code": obj.biz_code, "queue": obj.queue}
        api.pause_tasks(**names, using=alias())
        # Race: somebody else was quicker, and then it is theirs; or has resumed it since, and then
        # there is none.
        rows = Pause._base_manager.using(alias()).filter(**names)
        obj.pk = rows.values_list("pk", flat=True).first()

    def delete_model(self, request: HttpRequest, obj: Pause) -> None:
        api.resume_tasks(biz_code=obj.biz_code, queue=obj.queue, using=alias())

    def delete_queryset(self, request: HttpRequest, queryset: "QuerySet[Pause]") -> None:
        for pause in list(queryset):
            self.delete_model(request, pause)

    @admin.display(description=_("paused"))
    def what(self, pause: Pause) -> str:
        return capfirst(scope_name(pause))

    @admin.display(description=_("since"), ordering="since")
    def begun(self, pause: Pause) -> str:
        return time_and_distance(pause.since)
