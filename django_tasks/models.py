"""The tables. No behaviour that writes: ``django_tasks.store`` is the only writer."""

# First of all, before any other import of ours: the backport "django-tasks", installed after us,
# overwrites other modules but has no models.py.
from django_tasks.installation import require_own_package

require_own_package()

from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_tasks.fields import ClaimIndex, KeyField, OptionsField, payload_field
from django_tasks.orm_guard import GuardedModel, GuardedQuerySet
from django_tasks.sentences import on_a_line
from django_tasks.timezones import aware
from django_tasks.values.figures import COUNTED, SUMMED
from django_tasks.values.keys import (
    BIZ_CODE_LENGTH,
    BIZ_NUM_LENGTH,
    LOCK_NAME_LENGTH,
    NAME_LENGTH,
    QUEUE_LENGTH,
)
from django_tasks.values.options import no_options
from django_tasks.values.status import RunOutcome, Status, WorkerWish


class Task(GuardedModel):
    """One delayed task; there is at most one for each ``(biz_code, biz_num)``.

    Make one to give to ``add_task``; the rest of its life is written by the store. An empty
    ``queue``, a ``priority`` of None and an option of None mean: as the handler says.
    ``Task.objects`` is for reading: whatever would write raises DirectWrite, as ``save`` and
    ``delete`` do.
    """

    id = models.BigAutoField(primary_key=True)
    biz_code = KeyField(_("code"), max_length=BIZ_CODE_LENGTH)
    biz_num = KeyField(_("number"), max_length=BIZ_NUM_LENGTH)
    when = models.DateTimeField(_("when"))
    biz_ext = payload_field(_("extension data"))
    create_time = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    update_time = models.DateTimeField(_("updated"), default=timezone.now, editable=False)
    status = models.SmallIntegerField(
        _("status"), choices=Status.choices, default=Status.PENDING, editable=False
    )
    version = models.BigIntegerField(_("version"), default=0, editable=False)
    queue = KeyField(_("queue"), max_length=QUEUE_LENGTH, blank=True)
    priority = models.SmallIntegerField(_("priority"), blank=True)
    attempts = models.IntegerField(_("failed attempts"), default=0, editable=False)
    rescues = models.IntegerField(_("rescues"), default=0, editable=False)
    claimed_by = models.BigIntegerField(_("worker"), null=True, editable=False)
    claim_time = models.DateTimeField(_("claimed"), null=True, editable=False)
    last_error = models.TextField(_("last error"), default="", editable=False)
    # The path of the class that was raised last, as in the history: failures are told apart by it.
    exception = models.CharField(
        _("exception"), max_length=200, default="", db_default="", editable=False
    )
    schedule = models.TextField(_("schedule"), null=True, blank=True)
    # For which time the row waits, if ``when`` is another (jitter, a retry, a pause).
    scheduled_time = models.DateTimeField(_("scheduled time"), null=True, editable=False)
    # Debounced: until when it waits at the latest, however often it is added.
    latest_time = models.DateTimeField(_("latest time"), null=True, editable=False)
    name = models.CharField(_("name"), max_length=NAME_LENGTH, blank=True, default="")
    options = OptionsField(_("options"), null=True, blank=True, default=no_options)
    # Counted by the statement that hands the row over, so it is exact.
    runs = models.BigIntegerField(_("ended runs"), default=0, editable=False)
    # The end of the last of them: a history of problems alone keeps no line of a good run.
    last_run = models.DateTimeField(_("last run"), null=True, editable=False)
    # A word for people: no statement of ours decides by it.
    progress = models.JSONField(_("progress"), null=True, editable=False)

    objects: ClassVar[models.Manager["Task"]] = GuardedQuerySet.as_manager()

    class Meta:
        db_table = "t_task"
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        permissions: ClassVar[Any] = [
            ("run_task", _("Can run, reschedule and requeue tasks")),
            ("cancel_task", _("Can cancel tasks")),
            ("pause_task", _("Can pause and resume tasks")),
            ("operate_task", _("Can stop workers and set limits")),
        ]
        constraints: ClassVar[Any] = [
            # The only unique key besides the primary one: MySQL's ON DUPLICATE KEY fires on any.
            models.UniqueConstraint(fields=["biz_code", "biz_num"], name="t_task_key"),
        ]
        indexes: ClassVar[Any] = [
            # Serves the search for lanes (one seek each), the claim's WHERE and its ORDER BY.
            # The code stands before the time, so that a hundred thousand due rows of a code
            # nobody knows are never walked over.
            ClaimIndex(
                fields=["status", "queue", "priority", "biz_code", "when", "id"],
                name="t_task_claim",
            ),
        ]

    def __str__(self) -> str:
        return on_a_line(f"{self.biz_code}/{self.biz_num}")

    def __repr__(self) -> str:
        """Key, status and time. A column that was not loaded is not asked for, and the payload is
        left out: it may be long, and secret.
        """
        loaded = self.__dict__
        status = Status(loaded["status"]).name if loaded.get("status") in Status.values else ""
        when = f"when={loaded['when']}" if loaded.get("when") else ""
        return f"<{' '.join(filter(None, ('Task', str(self), status, when)))}>"


class TaskRun(models.Model):
    """One run that has ended, or a task that was cancelled before it ran.

    The names say what ``values.runs.Line`` says.
    """

    id = models.BigAutoField(primary_key=True)
    biz_code = KeyField(_("code"), max_length=BIZ_CODE_LENGTH)
    biz_num = KeyField(_("number"), max_length=BIZ_NUM_LENGTH)
    when = models.DateTimeField(_("when"))
    scheduled_time = models.DateTimeField(_("scheduled time"), null=True)
    started = models.DateTimeField(_("started"))
    ended = models.DateTimeField(_("ended"))
    outcome = models.CharField(_("outcome"), max_length=20, choices=RunOutcome.choices)
    missed = models.CharField(_("missed times"), max_length=50)
    attempt = models.IntegerField(_("attempt"))
    worker = models.CharField(_("worker"), max_length=200)
    error = models.TextField(_("error"))
    # The path of the class that was raised: by it failures are told apart.
    exception = models.CharField(_("exception"), max_length=200, default="")
    # The value of ``Finished``, and of a call of a ``@task`` function the call itself.
    # Without the encoder and the decoder of the project: arguments are as Django has them.
    detail = models.JSONField(_("detail"), null=True, blank=True)

    class Meta:
        db_table = "t_task_run"
        default_permissions = ("view",)  # nobody edits it
        verbose_name = pgettext_lazy("history", "run")
        verbose_name_plural = pgettext_lazy("history", "runs")
        indexes: ClassVar[Any] = [
            # All that the history is asked for; each further one costs every run its time.
            models.Index(fields=["biz_code", "biz_num"], name="t_task_run_key"),
        ]

    def __str__(self) -> str:
        return on_a_line(f"{self.biz_code}/{self.biz_num}")

    @property
    def return_value(self) -> Any:
        """The value with which the run was ``Finished``; None if there was none."""
        return self.detail.get("return_value") if isinstance(self.detail, dict) else None

    @property
    def lateness(self) -> float:
        """Seconds from ``when`` to the start."""
        return _seconds(self.when, self.started)

    @property
    def duration(self) -> float:
        """Seconds from the start to the end."""
        return _seconds(self.started, self.ended)


def _seconds(start: datetime, end: datetime) -> float:
    # Not end - start: without USE_TZ both are local times, and a change of clocks may lie between.
    return (aware("end", end) - aware("start", start)).total_seconds()


class WorkerRow(models.Model):
    """One worker process that polls this database. Its ``id`` is never used again."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(_("name"), max_length=200)
    started = models.DateTimeField(_("started"))
    heartbeat = models.DateTimeField(_("heartbeat"))
    # What others judge by: a count cannot repeat itself, as a clock's hour does in autumn.
    beats = models.BigIntegerField(_("heartbeats"), default=0)
    lease = models.FloatField(_("lease, seconds"))
    queues = models.JSONField(_("queues"), default=list)
    threads = models.IntegerField(_("threads"))
    state = models.CharField(_("state"), max_length=20)
    counters = models.JSONField(_("counters"), default=dict)
    # Where a datagram wakes it; empty if nowhere.
    doorbell = models.CharField(_("doorbell"), max_length=100, default="")
    # The facts that people ask for; no statement of ours decides by them.
    host = models.CharField(_("host"), max_length=200, default="", db_default="")
    pid = models.BigIntegerField(_("process"), default=0, db_default=0)
    version = models.CharField(_("version"), max_length=50, default="", db_default="")
    # The codes that it has handlers for and may claim.
    codes = models.JSONField(_("codes"), default=list)
    busy = models.IntegerField(_("busy threads"), default=0, db_default=0)
    memory = models.BigIntegerField(_("memory, bytes"), default=0, db_default=0)
    # The wish of a person, which the worker reads with its heartbeat: a ``WorkerWish``.
    wish = models.CharField(
        _("wish"), max_length=20, choices=WorkerWish.choices, default="", db_default="", blank=True
    )

    class Meta:
        db_table = "t_task_worker"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return self.name


class Lock(models.Model):
    """A named lock, held while ``holder`` is not empty and ``until`` has not passed.

    Rows are never deleted: ``term`` would begin again.
    """

    id = models.BigAutoField(primary_key=True)
    name = KeyField(_("name"), max_length=LOCK_NAME_LENGTH)
    # The fencing number: one more each time somebody takes the lock.
    term = models.BigIntegerField(_("term"), default=0)
    holder = models.CharField(_("holder"), max_length=200, default="", blank=True)
    # When the lock was taken, and when its lease ends: microseconds since 1970 UTC by the
    # database's clock. An hour that comes twice in autumn is no matter for a number.
    since = models.BigIntegerField(_("since"), default=0)
    until = models.BigIntegerField(_("until"), default=0)
    # What its holders hand on to each other.
    attributes = payload_field(_("attributes"))

    class Meta:
        db_table = "t_task_lock"
        verbose_name = _("lock")
        verbose_name_plural = _("locks")
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["name"], name="t_task_lock_name"),
        ]

    def __str__(self) -> str:
        return self.name


class Pause(models.Model):
    """While it is there, no task of ``queue`` and ``biz_code`` starts; an empty one means any."""

    id = models.BigAutoField(primary_key=True)
    queue = KeyField(_("queue"), max_length=QUEUE_LENGTH, blank=True, default="")
    biz_code = KeyField(_("code"), max_length=BIZ_CODE_LENGTH, blank=True, default="")
    since = models.DateTimeField(_("since"), default=timezone.now, editable=False)
    # The person or program that has paused it, in its own words.
    by = models.CharField(_("by"), max_length=200, default="", db_default="", editable=False)

    class Meta:
        db_table = "t_task_pause"
        default_permissions = ()  # the right to pause tasks is the right to pause them all
        verbose_name = _("pause")
        verbose_name_plural = _("pauses")
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["queue", "biz_code"], name="t_task_pause_scope"),
        ]

    def __str__(self) -> str:
        return f"{self.queue or '*'}/{self.biz_code or '*'}"


class EndedPause(models.Model):
    """A pause that has ended: a run that waited for it is late since then."""

    id = models.BigAutoField(primary_key=True)
    queue = KeyField(_("queue"), max_length=QUEUE_LENGTH, default="")
    biz_code = KeyField(_("code"), max_length=BIZ_CODE_LENGTH, default="")
    since = models.DateTimeField(_("since"))
    ended = models.DateTimeField(_("ended"))

    class Meta:
        db_table = "t_task_ended_pause"
        default_permissions = ()  # nobody edits it
        verbose_name = _("ended pause")
        verbose_name_plural = _("ended pauses")
        indexes: ClassVar[Any] = [
            models.Index(fields=["queue", "biz_code", "ended"], name="t_task_ended_pause_scope"),
        ]

    def __str__(self) -> str:
        return f"{self.queue or '*'}/{self.biz_code or '*'}"


class Gate(models.Model):
    """A row that the claims of a limited ``biz_code`` pass, one after the other in the cluster."""

    id = models.BigAutoField(primary_key=True)
    biz_code = KeyField(_("code"), max_length=BIZ_CODE_LENGTH)
    # Written by every claim that passes: on Galera two nodes then notice each other.
    passes = models.BigIntegerField(_("passes"), default=0)
    # The state of a rate limit, in microseconds since 1970 UTC: an hour that comes twice is no
    # matter for a number.
    full_until = models.BigIntegerField(_("full until"), default=0)
    # Limits that an operator has set, in place of those of the handler; None: as it says.
    max_running = models.IntegerField(_("runs at once"), null=True)
    rate_limit = models.CharField(_("rate limit"), max_length=20, null=True)

    class Meta:
        db_table = "t_task_gate"
        default_permissions = ()  # nobody edits it
        verbose_name = _("gate")
        verbose_name_plural = _("gates")
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["biz_code"], name="t_task_gate_code"),
        ]

    def __str__(self) -> str:
        return self.biz_code


class TaskMinute(models.Model):
    """The runs of one code that one worker has counted in one minute, or in an hour of all workers.

    Rows are only added, merged and deleted: several may stand for the same minute, and their sum
    counts. With an ``exception`` it counts the failures with that exception alone, which the row
    without one has counted as well.
    """

    id = models.BigAutoField(primary_key=True)
    # The id of the worker; 0: of all, merged.
    worker = models.BigIntegerField(_("worker"), default=0)
    biz_code = KeyField(_("code"), max_length=BIZ_CODE_LENGTH)
    exception = models.CharField(_("exception"), max_length=200, default="")
    # Whole minutes since 1970 UTC: an hour that comes twice in autumn is no matter for a number.
    minute = models.IntegerField(_("minute"))
    # 1, or 60 for an hour; 0: all that is older than the history.
    span = models.SmallIntegerField(_("minutes"), default=1)

    class Meta:
        db_table = "t_task_minute"
        default_permissions = ()  # nobody edits it
        verbose_name = _("counted minute")
        verbose_name_plural = _("counted minutes")
        indexes: ClassVar[Any] = [
            models.Index(fields=["minute"], name="t_task_minute_time"),
            # Covers the marks by which a scrape tells if any minute has changed: it asks for them
            # each time, and rows with an exception, of which there may be more, count for nothing.
            models.Index(fields=["exception", "minute", "id"], name="t_task_minute_mark"),
        ]

    def __str__(self) -> str:
        return f"{self.biz_code}@{self.minute}"


for _name in COUNTED:
    TaskMinute.add_to_class(_name, models.BigIntegerField(_name, default=0))
for _name in SUMMED:
    TaskMinute.add_to_class(_name, models.FloatField(_name, default=0))
