"""``manage.py taskstatus``: what a person on call asks first, and a check for monitoring."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext, ngettext, pgettext

from django_tasks.management.base import TaskCommand, trouble, usage
from django_tasks.management.rows import local
from django_tasks.models import Task
from django_tasks.reads.overview import Overview, overview
from django_tasks.reads.problems import rejected_session
from django_tasks.reads.words import Amount, class_name, listed, span, stamp
from django_tasks.sentences import sentence as _
from django_tasks.store.rejections import session_rejection
from django_tasks.values.figures import Histogram
from django_tasks.values.status import Status

MOST_CODES = 30
MOST_GROUPS = 10
# Workers that a table has; the others are a number.
MOST_WORKERS = 20


class Command(TaskCommand):
    help = _(
        "Say if somebody is working, what is late, what has failed, what comes "
        "and how fast it goes. With --check: exit code 1 if a limit is broken, "
        "else 0."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = parser.add_argument
        add(
            "--check",
            action="store_true",
            help=gettext("say only which limits are broken; exit code 1"),
        )
        group = parser.add_argument_group(gettext("limits of --check"))
        add = group.add_argument
        add(
            "--max-late", type=float, metavar="SECONDS", help=gettext("of the oldest due task (60)")
        )
        add("--max-failed", type=int, metavar="N", help=gettext("tasks that have FAILED (10)"))
        add("--min-workers", type=int, metavar="N", help=gettext("workers that take tasks (1)"))

    def answer(self, options: dict[str, Any]) -> None:
        limits = _limits(options)
        found = overview(using=self.using)
        if rejection := session_rejection(self.using):
            first = rejected_session(rejection.sentence(self.using))
            found = replace(found, problems=(first, *found.problems))
        broken = list(_broken(found, self.using, *limits)) if options["check"] else []
        if self.is_json:
            self.say_json(found.as_json() | ({"broken": broken} if options["check"] else {}))
        elif options["check"]:
            self.say(*(broken or [gettext("All is well.")]))
        else:
            self._tell(found)
        if broken:
            raise trouble(
                ngettext("%(count)d limit is broken.", "%(count)d limits are broken.", len(broken))
                % {"count": len(broken)}
            )

    def _tell(self, found: Overview) -> None:
        facts = {"time": stamp(found.now), "alias": self.using}
        self.say(gettext("Tasks of database %(alias)s, %(time)s") % facts)
        for problem in found.problems:
            self.say(f"{_MARKS[problem.level]} {problem.sentence}")
        if not found.problems:
            self.say(gettext("Nothing is wrong."))
        self.say("", _summary(found))
        self._tell_workers(found)
        self._tell_speed(found)
        self._tell_codes(found)
        self._tell_failed(found)
        self._tell_pauses(found)

    def _tell_workers(self, found: Overview) -> None:
        self._section(
            gettext("Workers"),
            [
                gettext("name"),
                gettext("state"),
                gettext("busy"),
                gettext("threads"),
                gettext("heartbeat"),
                gettext("queues"),
                gettext("version"),
            ],
            [
                [
                    worker.name,
                    _state(worker),
                    worker.busy,
                    worker.threads,
                    gettext("%(span)s ago") % {"span": span(max(0.0, worker.silent))},
                    listed(worker.queues) or gettext("all"),
                    worker.version,
                ]
                for worker in found.workers
            ],
            MOST_WORKERS,
        )

    def _tell_speed(self, found: Overview) -> None:
        if not any(speed.figures.runs for speed in found.speed):
            return
        heads = [
            pgettext("the figures of the last hour, day, week", "last"),
            gettext("runs"),
            gettext("a minute"),
            gettext("failures"),
            gettext("late p50"),
            gettext("p99"),
            gettext("took p50"),
            gettext("p99"),
        ]
        self._section(
            gettext("Speed"),
            heads,
            [
                [
                    _length_of(speed.name),
                    f"{speed.figures.runs:,}",
                    f"{speed.runs_a_minute:,.1f}",
                    f"{speed.figures.failures:,}",
                    *_quantiles(speed.figures.late),
                    *_quantiles(speed.figures.took),
                ]
                for speed in found.speed
            ],
        )

    def _tell_codes(self, found: Overview) -> None:
        heads = [
            gettext("code"),
            gettext("due"),
            gettext("late"),
            gettext("oldest"),
            gettext("running"),
            gettext("failed"),
            gettext("next"),
            gettext("workers"),
        ]
        self._section(
            gettext("Codes with tasks"),
            heads,
            [
                [
                    code.code,
                    code.due or "",
                    code.late or "",
                    span((found.now - code.oldest).total_seconds()) if code.oldest else "",
                    code.running or "",
                    code.failed or "",
                    local(code.first),
                    code.workers,
                ]
                for code in found.codes
                if code.is_waiting or code.running or code.failed
            ],
            MOST_CODES,
        )

    def _tell_failed(self, found: Overview) -> None:
        self._section(
            gettext("Failed"),
            [
                gettext("code"),
                gettext("exception"),
                gettext("tasks"),
                gettext("first"),
                gettext("last"),
            ],
            [
                [
                    group.biz_code,
                    class_name(group.exception) or "?",
                    group.count,
                    stamp(group.first),
                    stamp(group.last),
                ]
                for group in found.failed.groups
            ],
            MOST_GROUPS,
        )

    def _tell_pauses(self, found: Overview) -> None:
        self._section(
            gettext("Pauses"),
            [gettext("code"), gettext("queue"), gettext("since"), gettext("by")],
            [
                [
                    pause.biz_code or gettext("all"),
                    pause.queue or gettext("all"),
                    stamp(pause.since),
                    pause.by,
                ]
                for pause in found.pauses
            ],
        )

    def _section(
        self, title: str, heads: list[str], lines: list[list[Any]], most: int | None = None
    ) -> None:
        if not lines:
            return
        self.say("")
        self.stdout.write(self.style.MIGRATE_HEADING(title))
        self.say_table(heads, lines[:most])
        if most is not None and (left := len(lines[most:])):
            self.say(ngettext("%(count)d more", "%(count)d more", left) % {"count": left})


_MARKS = {"error": "✗", "warning": "!", "info": "·"}


def _summary(found: Overview) -> str:
    hours = round(found.coming.step.total_seconds() * len(found.coming.buckets) / 3600)
    return ngettext(
        "%(working)d worker takes tasks; due: %(due)s, late: %(late)s, running: %(running)s,"
        " failed: %(failed)s; in the next %(hours)d hours: %(coming)s.",
        "%(working)d workers take tasks; due: %(due)s, late: %(late)s, running: %(running)s,"
        " failed: %(failed)s; in the next %(hours)d hours: %(coming)s.",
        len(found.working),
    ) % {
        "working": len(found.working),
        "due": found.due,
        "late": found.late.count,
        "running": found.running,
        "failed": found.failed.count,
        "hours": hours,
        "coming": found.coming.total(),
    }


def _state(worker: Any) -> str:
    if not worker.is_alive:
        return gettext("silent")
    known = {
        "running": pgettext("a worker", "running"),
        "quiet": gettext("quiet"),
        "stopping": pgettext("a worker", "stopping"),
        "rejected": gettext("statements rejected"),
        "stop": pgettext("a worker", "stop"),
    }
    word = str(worker.wish or worker.state)
    return known.get(word, word)


def _length_of(name: str) -> str:
    known = {
        "hour": pgettext("the figures of the last", "hour"),
        "day": pgettext("the figures of the last", "day"),
        "week": pgettext("the figures of the last", "week"),
    }
    return known.get(name, name)


def _quantiles(histogram: Histogram) -> list[str]:
    values = (histogram.quantile(part) for part in (0.5, 0.99))
    return ["" if value is None else span(value) for value in values]


def _limits(options: dict[str, Any]) -> Sequence[float]:
    defaults = {"max_late": 60.0, "max_failed": 10, "min_workers": 1}
    for name in defaults:
        flag = f"--{name.replace('_', '-')}"
        if options[name] is not None and not options["check"]:
            raise usage(gettext("%(flag)s goes with --check.") % {"flag": flag})
        if options[name] is not None and not options[name] >= 0:
            raise usage(
                gettext("%(flag)s must be 0 or more, not %(value)s.")
                % {"flag": flag, "value": options[name]}
            )
    return [
        default if options[name] is None else options[name] for name, default in defaults.items()
    ]


def _broken(
    found: Overview, using: str, max_late: float, max_failed: float, min_workers: float
) -> Iterator[str]:
    yield from (each.sentence for each in found.problems if each.kind == "rejected")
    if len(found.working) < min_workers:
        yield ngettext(
            "%(count)d worker takes tasks, and %(least)d must.",
            "%(count)d workers take tasks, and %(least)d must.",
            len(found.working),
        ) % {"count": len(found.working), "least": min_workers}
    for code in found.codes:
        seconds = (found.now - code.oldest).total_seconds() if code.oldest else 0.0
        if seconds > max_late:
            yield gettext("A task of %(code)s is %(span)s late, and %(most)s are allowed.") % {
                "code": code.code,
                "span": span(seconds),
                "most": span(max_late),
            }
    if _has_failed(found.failed.count, int(max_failed), using):
        failed = found.failed.count
        yield ngettext(
            "%(count)s task has failed, and %(most)d are allowed.",
            "%(count)s tasks have failed, and %(most)d are allowed.",
            failed.number,
        ) % {"count": failed, "most": max_failed}


def _has_failed(counted: Amount, most: int, using: str) -> bool:
    if not counted.is_more or counted.number > most:
        return counted.number > most
    rows = Task._base_manager.using(using).filter(status=Status.FAILED)
    return rows.values("pk")[: most + 1].count() > most
