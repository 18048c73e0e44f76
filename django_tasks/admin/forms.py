"""The form of a task: its fields, their widgets, and the checks of ``add_task``."""

import re
from typing import Any, ClassVar

from django import forms
from django.contrib.admin.widgets import (
    AdminSplitDateTime,
    BaseAdminDateWidget,
    BaseAdminTimeWidget,
)
from django.forms.fields import InvalidJSONInput
from django.utils import formats
from django.utils.translation import gettext_lazy as _

from django_tasks import payloads
from django_tasks.admin.display import LONG_TEXT, as_json
from django_tasks.admin.lists import AnyModelForm, alias
from django_tasks.client.arguments import (
    checked_moment,
    checked_schedule,
    checked_task,
    note_unknown,
)
from django_tasks.exceptions import TaskException, TaskValueError
from django_tasks.models import Task
from django_tasks.reads.words import as_sentence
from django_tasks.schedules.base import LONGEST
from django_tasks.schedules.policies import Plan, as_plan


def _exact_format(kind: str, part: str) -> str:
    """The first of the language's input formats that says ``part`` of a date or a time."""
    known: list[str] = formats.get_format(kind)  # and ISO's among them, whatever the language
    return next(form for form in known if part in form and "%f" not in form)


class ExactDate(BaseAdminDateWidget):
    def format_value(self, value: Any) -> Any:
        return formats.localize_input(value, _exact_format("DATE_INPUT_FORMATS", "%Y"))


class ExactTime(BaseAdminTimeWidget):
    def format_value(self, value: Any) -> Any:
        return formats.localize_input(value, _exact_format("TIME_INPUT_FORMATS", "%S"))


class ExactWhen(AdminSplitDateTime):
    """Django's widget, but with seconds and whole years in every language.

    It writes a time in the first format that a language reads, and in Chinese that has no seconds.
    The words before its two fields are no labels of theirs; these have names of their own.
    """

    def __init__(self, attrs: Any = None) -> None:
        super().__init__(attrs)
        given = attrs or {}
        self.widgets = (
            ExactDate({"aria-label": _("Date"), **given}),
            ExactTime({"aria-label": _("Time"), **given}),
        )


class PayloadField(forms.JSONField):
    """JSON to be read by people: indented, and nothing where there is nothing. What was typed, and
    is shown again, is as it was typed.
    """

    def to_python(self, value: Any) -> Any:
        try:
            found = super().to_python(value)
            payloads.encoded(found)  # before Django's own steps, which too deep a value would break
        except TaskValueError as error:
            raise forms.ValidationError(as_sentence(error.problem)) from error
        except (ValueError, RecursionError) as error:  # of numbers and depths beyond json's
            raise forms.ValidationError(self.error_messages["invalid"], "invalid") from error
        return found

    def bound_data(self, data: Any, initial: Any) -> Any:
        return initial if self.disabled else InvalidJSONInput(data or "")

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, InvalidJSONInput):
            return value
        if value is None:
            return ""
        # Thirty levels deep, each number is a line of sixty blanks.
        indented = as_json(value, indent=2)
        return indented if len(indented) <= LONG_TEXT else as_json(value)


class ShownText(forms.CharField):
    """A text of one line that was edited only if it comes back as another than it was shown.

    What is typed loses its outer blanks, but a task may have some. A browser shows no line ends.
    """

    def has_changed(self, initial: Any, data: Any) -> bool:
        shown = re.sub("[\r\n]", "", initial or "")
        return data != shown and super().has_changed(initial, data)


class TaskForm(AnyModelForm):
    """Checks as ``add_task`` does, and that nobody has moved the task since the form was opened."""

    # Labelled: a page for reading shows it.
    seen_version = forms.IntegerField(
        label=_("Seen version"), widget=forms.HiddenInput, required=False
    )

    class Meta:
        model = Task
        fields = (
            *("biz_code", "biz_num", "name", "when", "schedule", "biz_ext", "queue", "priority"),
        )
        # Django keeps these labels in its log, and translates them when it is read.
        labels: ClassVar[Any] = {
            "name": _("Name"),
            "when": _("When"),
            "schedule": _("Schedule"),
            "biz_ext": _("Payload"),
            "queue": _("Queue"),
            "priority": _("Priority"),
        }
        field_classes = {
            "name": ShownText,
            "schedule": ShownText,
            "biz_ext": PayloadField,
            "queue": ShownText,
        }
        widgets: ClassVar[Any] = {
            "when": ExactWhen,
            "name": forms.TextInput(attrs={"size": 60}),
            "schedule": forms.TextInput(attrs={"size": 60}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("queue", "priority"):
            if name in self.fields:
                self.fields[name].help_text = _("Empty: as the handler says.")
        if "schedule" in self.fields:
            self.fields["schedule"].empty_value = None  # type: ignore[attr-defined]
            self.fields["schedule"].help_text = _(
                "When it runs again: “every 30m”, “every monday at 09:00”, “cron 0 9 * * 1-5 "
                "Asia/Shanghai”; with options: "
                "“every 1h | grace 10m | timeout 30s | attempts 3”. Empty: it runs once."
            )
            self.fields["when"].required = False
            self.fields["when"].help_text = _("With a schedule it may be left empty.")
        if self.instance.pk and "seen_version" in self.fields:
            self.fields["seen_version"].initial = self.instance.version

    @property
    def moved_fields(self) -> list[str]:
        """Names of the fields that say something new about the task."""
        return [name for name in self.changed_data if name != "seen_version"]

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.instance.pk:
            self._refuse_if_moved()
            self._keep_what_nobody_edited()
        return self.cleaned_data

    def _refuse_if_moved(self) -> None:
        """Compare versions under the row's lock, which the caller's transaction holds to its end.

        SQLite has no such lock, and a transaction there that has read what is no longer so
        cannot write.
        """
        row = Task._base_manager.using(alias()).select_for_update().filter(pk=self.instance.pk)
        version = row.values_list("version", flat=True).first()
        if version is None:
            raise forms.ValidationError(_("This task has ended, or has been cancelled, meanwhile."))
        if version != self.cleaned_data.get("seen_version"):
            raise forms.ValidationError(
                _(
                    "This task has been changed, or has run, since you opened this form. Nothing "
                    "was saved. Open it again to see what it is now."
                )
            )

    def _keep_what_nobody_edited(self) -> None:
        """A form tells less than a row: it has no microseconds, and an hour that comes twice once.

        So a field that was sent back as it was shown keeps its value, and cannot be wrong. But the
        time of another schedule is not a time of this one, which begins with its first.
        """
        for name in set(self.fields) - {*self.changed_data, "seen_version"}:
            self.errors.pop(name, None)
            self.cleaned_data[name] = getattr(self.instance, name)
        if {"when", "schedule"} & {*self.changed_data} == {"schedule"} and self.cleaned_data.get(
            "schedule"
        ):
            self.cleaned_data["when"] = None

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            try:
                self._take_options()
                note_unknown(checked_task(self.instance, alias()).biz_code)
            except TaskValueError as error:
                field = error.field if error.field in self.fields else None
                self.add_error(field, as_sentence(error.problem))
            except TaskException as error:  # a schedule whose library is not installed here
                self.add_error("schedule", str(error))

    def _take_options(self) -> None:
        task = self.instance
        if "schedule" in self.changed_data and task.schedule:
            plan = as_plan(task.schedule)
            task.schedule, task.options = str(plan.schedule), plan.options.over(task.options)


class RescheduleForm(forms.Form):
    """The new time of a task, in the reader's zone."""

    when = forms.SplitDateTimeField(label=_("New time"), widget=ExactWhen)

    def clean_when(self) -> Any:
        try:
            moment = checked_moment("when", self.cleaned_data["when"], alias())
        except TaskValueError as error:
            raise forms.ValidationError(as_sentence(error.problem)) from error
        if not self.has_changed():
            raise forms.ValidationError(_("This is its time already."))
        return moment


class ScheduleForm(forms.Form):
    """The text of a schedule, perhaps with options behind it."""

    schedule = forms.CharField(
        label=_("Schedule"),
        max_length=LONGEST,
        widget=forms.TextInput(attrs={"size": 60}),
        help_text=_(
            "Such as “every 30m”, “every monday at 09:00” or “cron 0 9 * * 1-5 Asia/Shanghai”."
        ),
    )
    plan: Plan | None = None

    def clean_schedule(self) -> str:
        text: str = self.cleaned_data["schedule"]
        try:
            self.plan, _first = checked_schedule(text, alias())
        except TaskValueError as error:
            raise forms.ValidationError(as_sentence(error.problem)) from error
        except TaskException as error:  # a schedule whose library is not installed here
            raise forms.ValidationError(str(error)) from error
        return text
