"""The first page of the app: is somebody working, what is late, what has failed, what comes."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone as django_timezone
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache

from django_tasks.admin import charts, site
from django_tasks.admin.charts import Chart, Curve, Part, Stack
from django_tasks.admin.lists import alias, sees_workers
from django_tasks.reads.backlog import Coming, Group
from django_tasks.reads.figures import series
from django_tasks.reads.overview import SPANS, Overview, Speed, overview
from django_tasks.reads.problems import WORKER, WORKERS, Problem
from django_tasks.reads.words import Amount, about, at, span
from django_tasks.values.figures import Figures

# Seconds between two looks of a page that is open.
REFRESH = 15
STEPS = {
    "hour": timedelta(minutes=2),
    "day": timedelta(hours=1),
    "week": timedelta(hours=6),
}
SPAN_WORDS = {"hour": _("last hour"), "day": _("last day"), "week": _("last week")}
TICKS = [
    (0.01, _("10 ms")),
    (0.1, _("100 ms")),
    (1, _("1 s")),
    (10, _("10 s")),
    (100, _("100 s")),
]
MORE_TICKS = [(1000, _("17 min")), (10_000, _("3 h")), (100_000, _("1 d"))]
MOST_ROWS = 10  # of a table

Points = list[tuple[datetime, Figures]]


class Dashboard(site.PageModel):
    class Meta(site.PageModel.Meta):
        verbose_name = verbose_name_plural = _("dashboard")


class Tile(NamedTuple):
    """One answer: a number, what it is of, and a word more; ``kind`` is "good", "bad" or ""."""

    name: str
    number: str
    words: str
    kind: str
    address: str


class ShownProblem(NamedTuple):
    """A problem with the address of its cure; empty if it is not on this site, or not for the
    user.
    """

    problem: Problem
    address: str


class DashboardPage(site.OwnPages):
    def views(self) -> list[tuple[str, site.View, str]]:
        return [("", self.dashboard, "django_tasks_dashboard")]

    class Media:
        js = ("django_tasks/dashboard.js",)

    def dashboard(self, request: HttpRequest) -> HttpResponse:
        """The page, which fetches itself again and puts its new main part in place of the old."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return never_cache(self._dashboard)(request)

    def _dashboard(self, request: HttpRequest) -> HttpResponse:
        chosen = request.GET.get("span", "")
        name = chosen if chosen in SPANS else "hour"
        now = overview(using=alias(), named=sees_workers(request))
        points = series(now.now - SPANS[name], now.now, STEPS[name], using=alias())
        return self.page(
            request,
            "dashboard.html",
            _("Delayed tasks"),
            now=now,
            tiles=self._tiles(request, now),
            told=[ShownProblem(each, self._cure(request, each)) for each in now.problems],
            late=[
                (code, self._tasks(due="late", code=code.code)) for code in _few(now.late.by_code)
            ],
            failed=[(each, self._of_group(each)) for each in _few(now.failed.groups)],
            failures_address=self._failures(),
            speeds=[(each, SPAN_WORDS[each.name], each.name == name) for each in now.speed],
            charts=[coming_chart(now.coming), runs_chart(points, name), late_chart(points, name)],
            refresh=REFRESH,
        )

    def _tiles(self, request: HttpRequest, now: Overview) -> list[Tile]:
        return [
            self._workers_tile(request, now),
            self._late_tile(now),
            self._failed_tile(now),
            Tile(
                gettext("Running"),
                now.running.short(),
                _threads(now),
                "bad" if now.stuck else "",
                self._tasks(stuck="1") if now.stuck else self._tasks(status="running"),
            ),
            self._coming_tile(now),
            _speed_tile(now.speed[0]),
        ]

    def _workers_tile(self, request: HttpRequest, now: Overview) -> Tile:
        working = len(now.working)
        if now.working:
            words = gettext("at work")
        elif now.last_seen is None:
            words = gettext("none has run yet")
        else:
            words = gettext("none since %(time)s") % {"time": about(now.last_seen, now.now)}
        others = len(now.workers) - working
        if working and others:
            more = ngettext("%(count)d other", "%(count)d others", others) % {"count": others}
            words = gettext("%(words)s, %(more)s") % {"words": words, "more": more}
        kind = "good" if working else "bad"
        address = self.address(WORKERS) if sees_workers(request) else ""
        return Tile(gettext("Workers"), str(working), words, kind, address)

    def _late_tile(self, now: Overview) -> Tile:
        words = gettext("nothing is late")
        if now.late.oldest is not None:
            waited = (now.now - now.late.oldest).total_seconds()
            words = gettext("the oldest by %(time)s") % {"time": span(waited)}
        kind = "bad" if now.late.count else "good"
        return Tile(gettext("Late"), now.late.count.short(), words, kind, self._tasks(due="late"))

    def _failed_tile(self, now: Overview) -> Tile:
        words = gettext("nothing has failed")
        if now.failed.groups:
            last = now.failed.groups[0]
            words = gettext("the last one at %(time)s") % {"time": at(last.last, now.now)}
        kind = "bad" if now.failed.count else "good"
        return Tile(gettext("Failed"), now.failed.count.short(), words, kind, self._failures())

    def _coming_tile(self, now: Overview) -> Tile:
        length = now.coming.step * len(now.coming.buckets)
        words = gettext("due in the next %(time)s") % {"time": span(length.total_seconds())}
        address = self._tasks(due="future")
        return Tile(gettext("Coming"), now.coming.total().short(), words, "", address)

    def _failures(self) -> str:
        return self.address("django_tasks_failures") or self._tasks(status="failed")

    def _of_group(self, group: Group) -> str:
        return self._tasks(status="failed", code=group.biz_code, exception=group.exception)

    def _cure(self, request: HttpRequest, problem: Problem) -> str:
        if problem.cure_view in (WORKERS, WORKER) and not sees_workers(request):
            return ""
        return self.address(problem.cure_view, *problem.cure_args, **problem.cure_params)


def _few(found: Iterable[Any]) -> list[Any]:
    return list(found)[:MOST_ROWS]


def _threads(now: Overview) -> str:
    threads = sum(worker.threads for worker in now.alive)
    busy = sum(min(worker.busy, worker.threads) for worker in now.alive)
    text = gettext("%(busy)d of %(threads)d threads are busy")
    words = text % {"busy": busy, "threads": threads}
    if not now.stuck:
        return words
    stuck = gettext("%(count)d held by a worker that is gone") % {"count": len(now.stuck)}
    return gettext("%(stuck)s; %(threads)s") % {"stuck": stuck, "threads": words}


def _speed_tile(hour: Speed) -> Tile:
    number = f"{hour.runs_a_minute:.3g}" if hour.runs_a_minute >= 1 else f"{hour.runs_a_minute:.2f}"
    late = hour.figures.late.quantile(0.99)
    words = gettext("runs a minute in the last hour")
    if late is not None:
        words = gettext("runs a minute, 99 %% at most %(time)s late") % {"time": span(late)}
    return Tile(gettext("Speed"), number, words, "", "")


def coming_chart(coming: Coming) -> Chart:
    """The tasks that are due in the next hours."""
    total = coming.total()
    found = [
        Stack(
            clock_time(bucket.start),
            str(bucket.count),
            (Part(bucket.count.number, "more" if bucket.count.is_more else "plain"),),
        )
        for bucket in coming.buckets
    ]
    length = coming.step * len(coming.buckets)
    words = ngettext(
        "%(count)s task is due in the next %(time)s.",
        "%(count)s tasks are due in the next %(time)s.",
        total.number,
    ) % {"count": total, "time": span(length.total_seconds())}
    words = capfirst(words)
    if total.is_more:
        words = gettext("%(words)s Lighter bars are higher than they are drawn.") % {"words": words}
    title = gettext("What comes, by %(time)s") % {"time": span(coming.step.total_seconds())}
    return charts.bars("coming", title, words, found, (gettext("from"), gettext("tasks")))


def runs_chart(points: Points, name: str) -> Chart:
    """The runs that have ended, well or not."""
    found = []
    for moment, figures in points:
        words = gettext("%(runs)d runs, %(failures)d failed") % {
            "runs": figures.runs,
            "failures": figures.failures,
        }
        parts = (Part(figures.failures, "bad"), Part(figures.runs - figures.failures, "plain"))
        found.append(Stack(_label(moment, name), words, parts))
    words = gettext("At most %(runs)s runs in %(time)s; those that failed are red.")
    most = max((figures.runs for _moment, figures in points), default=0)
    title = gettext("Runs in the %(span)s") % {"span": SPAN_WORDS[name]}
    return charts.bars(
        f"runs-{name}",
        title,
        words % {"runs": Amount(most), "time": span(STEPS[name].total_seconds())},
        found,
        (gettext("from"), gettext("runs")),
    )


def late_chart(points: Points, name: str) -> Chart:
    """Half of the runs, and 99 of 100, started no later than this."""
    halves = [figures.late.quantile(0.5) for _moment, figures in points]
    mosts = [figures.late.quantile(0.99) for _moment, figures in points]
    highest = max((value for value in mosts if value is not None), default=0.0)
    marks = [*TICKS, *[tick for tick in MORE_TICKS if highest > TICKS[-1][0]]]
    ticks = [(seconds, str(text)) for seconds, text in marks]
    words = gettext("No run has started.")
    if highest:
        words = gettext("99 of 100 runs started at most %(time)s late at worst.")
    return charts.lines(
        f"late-{name}",
        gettext("Lateness in the %(span)s") % {"span": SPAN_WORDS[name]},
        words % {"time": span(highest)} if highest else words,
        [_label(moment, name) for moment, _figures in points],
        [Curve("p50", "plain", halves), Curve("p99", "bad", mosts)],
        [tuple(map(_or_dash, pair)) for pair in zip(halves, mosts, strict=True)],
        ticks,
        (gettext("from"), "p50", "p99"),
    )


def _or_dash(seconds: float | None) -> str:
    return "-" if seconds is None else span(seconds)


def clock_time(moment: datetime) -> str:
    """A time in the current time zone, without its date."""
    return f"{moment.astimezone(django_timezone.get_current_timezone()):%H:%M}"


def _label(moment: datetime, name: str) -> str:
    if name != "week":
        return clock_time(moment)
    return f"{moment.astimezone(django_timezone.get_current_timezone()):%m-%d %H:%M}"
