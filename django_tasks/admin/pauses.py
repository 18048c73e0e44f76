"""The pages of what is paused as a whole."""

from collections.abc import Callable, Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import DELETION
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin import site
from django_tasks.admin.display import time_above_distance
from django_tasks.admin.lists import AnyModelForm, alias, may, note
from django_tasks.client.arguments import check_code, check_queue
from django_tasks.client.doubts import doubts
from django_tasks.exceptions import TaskValueError
from django_tasks.models import Pause
from django_tasks.reads import backlog
from django_tasks.reads.words import as_sentence, in_a_row, scope_name, scope_words
from django_tasks.store import clock


class PauseForm(AnyModelForm):
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
            raise forms.ValidationError(as_sentence(error.problem)) from error


# Of an id; Python refuses to read thousands of them.
MOST_DIGITS = 19


class PauseAdmin(site.SeenWithTasks, site.CardPages):
    """Pauses of a whole. One is added and ended; there is nothing to edit.

    The right to pause tasks is the right to pause them all, and the right to see tasks that to see
    pauses. To pause everything is asked twice.
    """

    form = PauseForm
    list_display = ("what", "begun", "by", "ending")
    list_display_links = None
    actions = ("resume_selected",)
    ordering = ("queue", "biz_code")

    def get_urls(self) -> list[URLPattern]:
        resume = self.admin_site.admin_view(site.strict(self.resume))
        name = "django_tasks_pause_resume"
        return [path("<int:pause_id>/resume/", resume, name=name), *super().get_urls()]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may(request, "view") and may(request, "pause")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_add_permission(request)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return self.list_display if self.has_add_permission(request) else self.list_display[:-1]

    # What is shown

    @admin.display(description=pgettext_lazy("scope", "paused"))
    def what(self, pause: Pause) -> str:
        return scope_words(pause)

    @admin.display(description=_("since"), ordering="since")
    def begun(self, pause: Pause) -> str:
        now = clock.now(alias())
        return time_above_distance(min(backlog.since(pause), now), now)

    @admin.display(description=_("end"))
    def ending(self, pause: Pause) -> str:
        # The list stands in a form, which has the token; a form within a form is none.
        return format_html(
            '<button type="submit" class="button" formaction="{}">{}</button>',
            self.address("django_tasks_pause_resume", pause.pk),
            gettext("Resume"),
        )

    # What is changed

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        is_whole = not (request.POST.get("biz_code") or request.POST.get("queue"))
        is_sure = request.POST.get("sure") == "everything"
        if (
            request.method == "POST"
            and is_whole
            and not is_sure
            and self.has_add_permission(request)
        ):
            return self.confirm(
                request,
                _("Pause everything?"),
                [
                    gettext("No code and no queue was named."),
                    gettext("No task starts, on any worker, until somebody resumes everything."),
                ],
                hidden={"biz_code": "", "queue": "", "sure": "everything"},
                button=_("Pause everything"),
                dangerous=True,
                back=self._list(),
            )
        # There is nothing to go on with: a pause is made once, and ended in the list.
        only = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().add_view(request, form_url, {**only, **(extra_context or {})})

    def save_model(self, request: HttpRequest, obj: Pause, form: Any, change: bool) -> None:
        names = {"biz_code": obj.biz_code, "queue": obj.queue}
        api.pause_tasks(**names, by=site.author(request), using=alias())
        # Race: somebody else was quicker, and then it is theirs; or has resumed it since, and then
        # there is none.
        rows = Pause._base_manager.using(alias()).filter(**names)
        obj.pk = rows.values_list("pk", flat=True).first()

    def response_add(self, request: HttpRequest, obj: Pause, *args: Any) -> HttpResponse:
        text = gettext("Paused: %(scope)s.") % {"scope": scope_name(obj)}
        unsure = doubts(obj.biz_code, obj.queue, using=alias())
        level = messages.WARNING if unsure else messages.SUCCESS
        return self.go(request, self._list(), in_a_row([text, *map(str, unsure)]), level)

    def _list(self) -> str:
        return self.address("django_tasks_pause_changelist")

    def resume(self, request: HttpRequest, pause_id: int) -> HttpResponse:
        """End a pause, by a button of the list; asked for by its address, it asks first."""
        if not self.has_delete_permission(request):
            raise PermissionDenied
        back = self._list()
        pause = self.get_queryset(request).filter(pk=pause_id).first()
        if pause is None:
            return self.go(request, back, gettext("That pause has ended already."), messages.INFO)
        if request.method != "POST":
            title = gettext("Resume: %(scope)s?") % {"scope": scope_name(pause)}
            sentences = [gettext("Workers start what is due of it, and look at once.")]
            return self.confirm(request, title, sentences, button=_("Resume"), back=back)
        self._end(request, pause)
        return self.go(request, back, _resumed([pause]), messages.SUCCESS)

    def delete_view(self, request: HttpRequest, object_id: str, *args: Any) -> HttpResponse:
        """The address by which Django ends a pause: the same page, which says it in words."""
        if not object_id.isdecimal() or len(object_id) > MOST_DIGITS:
            raise Http404
        return self.resume(request, int(object_id))

    @admin.action(description=_("Resume"), permissions=["delete"])
    def resume_selected(self, request: HttpRequest, queryset: "QuerySet[Pause]") -> None:
        pauses = list(queryset)
        for pause in pauses:
            self._end(request, pause)
        self.message_user(request, _resumed(pauses), messages.SUCCESS)

    def _end(self, request: HttpRequest, pause: Pause) -> None:
        # Before: there is no row to write about afterwards.
        note(request, [pause], DELETION, lambda: _resumed([pause]))
        self.delete_model(request, pause)

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        # Django 6.1 asks for the actions of a place.
        where = {} if action_location is None else {"action_location": action_location}
        found: dict[str, Any] = super().get_actions(request, **where)
        found.pop("delete_selected", None)
        return found

    def delete_model(self, request: HttpRequest, obj: Pause) -> None:
        api.resume_tasks(biz_code=obj.biz_code, queue=obj.queue, using=alias())


def _resumed(pauses: Iterable[Pause]) -> str:
    scopes = gettext("; ").join(scope_name(pause) for pause in pauses)
    return gettext("Resumed: %(scope)s.") % {"scope": scopes}
