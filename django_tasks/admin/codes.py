"""The pages of codes: what waits of each, how fast it goes, its limits and its pause."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin import charts, site
from django_tasks.admin.dashboard import late_chart, runs_chart
from django_tasks.admin.lists import Say, alias, may, note
from django_tasks.client.arguments import check_code
from django_tasks.client.operating import set_limits
from django_tasks.exceptions import TaskException, TaskTypeError, TaskValueError
from django_tasks.models import Gate, Pause
from django_tasks.reads.codes import Code, codes, rate_text
from django_tasks.reads.figures import series, series_by_code
from django_tasks.reads.overview import HOUR, see
from django_tasks.reads.words import as_sentence, listed
from django_tasks.store import clock
from django_tasks.values.limits import MOST, Limit, as_limit

SPARK_STEP = timedelta(minutes=2)
# More codes than a page is made for: the others are found by their own filter.
MOST_CODES = 500
LONGEST_RATE = 20

_PAUSED = _("Code “%(code)s” is paused.")
_RESUMED = _("Code “%(code)s” is resumed.")


class Codes(site.PageModel):
    class Meta(site.PageModel.Meta):
        verbose_name = _("code")
        verbose_name_plural = _("codes")


class CodeRow(NamedTuple):
    """One code of the list, with the addresses of its lists and its runs as a small line."""

    code: Code
    limits: str
    spark: str
    runs_a_minute: float
    address: str
    due: str
    late: str
    failed: str


class LimitsForm(forms.Form):
    """The limits of a code for the whole cluster; an empty one is that of its handler."""

    max_running = forms.IntegerField(
        label=_("runs at once"), min_value=1, max_value=MOST, required=False
    )
    rate_limit = forms.CharField(
        label=_("starts in a time"),
        max_length=LONGEST_RATE,
        required=False,
        help_text=_("A number, a slash and s, m, h or d, such as 100/m."),
    )

    def clean_rate_limit(self) -> str:
        text: str = self.cleaned_data["rate_limit"].strip()
        try:
            as_limit(None, text or None)
        except (TaskValueError, TaskTypeError) as error:
            raise ValidationError(as_sentence(error.problem)) from error
        return text


def _about_a_code(*actions: str) -> Callable[[Callable[..., HttpResponse]], site.View]:
    def decorate(view: Callable[..., HttpResponse]) -> site.View:
        def of_code(page: "CodePages", request: HttpRequest) -> HttpResponse:
            _require(request, *actions)
            try:
                code = check_code(request.GET.get("code", ""))
            except TaskException:
                text = gettext("The address names no code that can be.")
                return page.go(request, page.address("django_tasks_codes"), text, messages.ERROR)
            return view(page, request, code)

        return of_code

    return decorate


class CodePages(site.OwnPages):
    """Each handler, and each code that rows or workers name."""

    def views(self) -> list[tuple[str, site.View, str]]:
        return [
            ("", self.list_of_codes, "django_tasks_codes"),
            ("one/", self.one, "django_tasks_code"),
            ("limits/", self.limits, "django_tasks_code_limits"),
            ("pause/", self.pause, "django_tasks_code_pause"),
            ("resume/", self.resume, "django_tasks_code_resume"),
        ]

    def list_of_codes(self, request: HttpRequest) -> HttpResponse:
        """All of them, or those whose name has the ``q`` of the query in it."""
        _require(request, "view")
        now = clock.now(alias())
        seen = see(now, using=alias())
        found = codes(seen, now)
        wanted = request.GET.get("q", "").strip()
        found = [code for code in found if wanted in code.code]
        lines = series_by_code(now - HOUR, now, SPARK_STEP, using=alias())
        return self.page(
            request,
            "codes.html",
            _("Codes"),
            rows=[self._row(code, lines) for code in found[:MOST_CODES]],
            left=max(0, len(found) - MOST_CODES),
            someone_works=any(worker.is_working for worker in seen.workers),
            wanted=wanted,
            now=now,
        )

    def _row(self, code: Code, lines: dict[str, Any]) -> CodeRow:
        runs = [figures.runs for _moment, figures in lines.get(code.code, [])]
        return CodeRow(
            code=code,
            limits=_limits_words(code.limits.in_force),
            spark=charts.spark(runs),
            runs_a_minute=code.figures.runs / (HOUR.total_seconds() / 60),
            address=self._page_of(code.code),
            due=self._tasks(due="due", code=code.code),
            late=self._tasks(due="late", code=code.code),
            failed=self._tasks(status="failed", code=code.code),
        )

    @_about_a_code("view")
    def one(self, request: HttpRequest, code: str) -> HttpResponse:
        """One code, which nobody need have heard of yet."""
        return self._one(request, code, None)

    def _one(self, request: HttpRequest, name: str, form: LimitsForm | None) -> HttpResponse:
        now = clock.now(alias())
        seen = see(now, using=alias())
        code = next((each for each in codes(seen, now) if each.code == name), None)
        points = series(now - HOUR, now, SPARK_STEP, biz_code=name, using=alias())
        gate = seen.gates.get(name)
        most, rate = (gate.max_running, gate.rate_limit) if gate else (None, None)
        return self.page(
            request,
            "code.html",
            name,
            code=code,
            row=code and self._row(code, {}),
            own=code and _limits_words(code.limits.own),
            given=limits_words(most, rate),
            now=now,
            charts=[runs_chart(points, "hour"), late_chart(points, "hour")],
            pauses=[
                pause
                for pause in seen.pauses
                if pause.biz_code == name or (not pause.biz_code and _touches(pause, code))
            ],
            is_paused=any(not pause.queue and pause.biz_code == name for pause in seen.pauses),
            form=form or LimitsForm(initial={"max_running": most, "rate_limit": rate or ""}),
            can_operate=may(request, "operate"),
            can_pause=may(request, "pause"),
            limits_address=self.address("django_tasks_code_limits", code=name),
            pause_address=self.address("django_tasks_code_pause", code=name),
            resume_address=self.address("django_tasks_code_resume", code=name),
            tasks_address=self._tasks(code=name),
        )

    @_about_a_code("view", "operate")
    def limits(self, request: HttpRequest, code: str) -> HttpResponse:
        """Set the limits of a code."""
        if request.method != "POST":  # as after a login
            return HttpResponseRedirect(self._page_of(code))
        form = LimitsForm(request.POST)
        if not form.is_valid():
            return self._one(request, code, form)
        most, rate = form.cleaned_data["max_running"], form.cleaned_data["rate_limit"] or None
        if set_limits(code, max_running=most, rate_limit=rate, using=alias()):
            say = partial(_limits_message, code, most, rate)
            gates = Gate._base_manager.using(alias()).filter(biz_code=code)
            return self._done(request, code, list(gates), say)
        text = gettext("The limits of “%(code)s” are as they were.") % {"code": code}
        return self.go(request, self._page_of(code), text, messages.INFO)

    @_about_a_code("view", "pause")
    def pause(self, request: HttpRequest, code: str) -> HttpResponse:
        """Ask, then pause a whole code."""
        names = {"code": code}
        if request.method != "POST":
            return self.confirm(
                request,
                gettext("Pause “%(code)s”?") % names,
                [
                    gettext("No task of it starts, on any worker, until somebody resumes it."),
                    gettext("What runs now goes on. Tasks can be added meanwhile, and wait."),
                ],
                button=_("Pause"),
                back=self._page_of(code),
            )
        by = site.author(request)
        if api.pause_tasks(biz_code=code, by=by, using=alias()):
            return self._done(request, code, self._pauses(code), lambda: _PAUSED % names)
        text = gettext("Code “%(code)s” was paused already.") % names
        return self.go(request, self._page_of(code), text, messages.INFO)

    @_about_a_code("view", "pause")
    def resume(self, request: HttpRequest, code: str) -> HttpResponse:
        """End the pause of a whole code."""
        if request.method != "POST":
            return HttpResponseRedirect(self._page_of(code))
        names = {"code": code}
        pauses = self._pauses(code)
        if api.resume_tasks(biz_code=code, using=alias()):
            return self._done(request, code, pauses, lambda: _RESUMED % names)
        text = gettext("Code “%(code)s” was not paused.") % names
        return self.go(request, self._page_of(code), text, messages.INFO)

    def _pauses(self, code: str) -> list[Pause]:
        return list(Pause._base_manager.using(alias()).filter(biz_code=code, queue=""))

    def _page_of(self, code: str) -> str:
        return self.address("django_tasks_code", code=code)

    def _done(self, request: HttpRequest, code: str, rows: list[Any], say: Say) -> HttpResponse:
        note(request, rows, CHANGE, say)
        return self.go(request, self._page_of(code), say(), messages.SUCCESS)


def _touches(pause: Pause, code: Code | None) -> bool:
    return not pause.queue or (code is not None and pause.queue in code.queues)


def _require(request: HttpRequest, *actions: str) -> None:
    if not all(may(request, action) for action in actions):
        raise PermissionDenied


def limits_words(max_running: int | None, rate_limit: str | None) -> str:
    """Both limits in a few words; empty if there is none."""
    found = [rate_limit] if rate_limit else []
    if max_running is not None:
        found.insert(0, gettext("%(most)d at once") % {"most": max_running})
    return listed(found)


def _limits_words(limit: Limit) -> str:
    return limits_words(limit.max_running, rate_text(limit.rate))


def _limits_message(code: str, most: int | None, rate: str | None) -> str:
    names = {"code": code, "most": most, "rate": rate}
    if most is None and rate is None:
        return gettext("The limits of “%(code)s” are those of its handler again.") % names
    if rate is None:
        return gettext("Of “%(code)s” at most %(most)s run at once.") % names
    if most is None:
        return gettext("Of “%(code)s” at most %(rate)s start.") % names
    return gettext("Of “%(code)s” at most %(most)s run at once, and %(rate)s start.") % names
