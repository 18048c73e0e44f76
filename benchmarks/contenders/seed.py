"""The seed design, written anew: a periodic poller on plain Django.

Each thread wakes up every few seconds, reads what is due, and takes the rows one by one: an UPDATE
guarded by the version, the handler, a DELETE, each with a commit of its own.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from threading import Thread
from time import sleep
from typing import Any

import django
from django.conf import settings

from benchmarks.address import django_database
from benchmarks.contenders.base import Contender, as_datetime, python
from benchmarks.journal import recorder

POLL_SECONDS = 10
THREADS = 2
BATCH = 1000

PENDING, RUNNING = 0, 1


def task_model(url: str) -> Any:
    """Set Django up, and the model of its one table."""
    settings.configure(DATABASES={"default": django_database(url)}, USE_TZ=True)
    django.setup()
    from django.db import models

    class SeedTask(models.Model):
        id = models.BigAutoField(primary_key=True)
        biz_code = models.CharField(max_length=50)
        biz_num = models.CharField(max_length=100)
        when = models.DateTimeField()
        biz_ext = models.JSONField(null=True)
        create_time = models.DateTimeField(auto_now_add=True)
        update_time = models.DateTimeField(auto_now=True)
        status = models.SmallIntegerField(default=PENDING)
        version = models.IntegerField(default=0)

        class Meta:
            app_label = "seed"
            db_table = "t_seed"
            unique_together = [("biz_code", "biz_num")]
            indexes = [models.Index(fields=["status", "when"], name="t_seed_due")]

        def __str__(self) -> str:
            return f"{self.biz_code}/{self.biz_num}"

    return SeedTask


class Seed(Contender):
    settings = f"{THREADS} threads, each polls every {POLL_SECONDS} s and takes rows one by one"

    def prepare(self) -> None:
        self.model = task_model(self.url)
        from django.db import connection

        with connection.schema_editor() as editor:
            editor.create_model(self.model)

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        when = as_datetime(due)
        return [self.model(biz_code="noop", biz_num=str(number), when=when) for number in numbers]

    def add_many(self, tasks: Sequence[Any]) -> None:
        self.model.objects.bulk_create(tasks, batch_size=1000)

    def add(self, number: int, due: float) -> None:
        when, key = as_datetime(due), {"biz_code": "noop", "biz_num": str(number)}
        from django.db.models import F

        if not self.model.objects.filter(**key).update(when=when, version=F("version") + 1):
            self.model.objects.create(**key, when=when)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "benchmarks.contenders.seed", self.url)] * processes

    def is_empty(self) -> bool:
        return not self.model.objects.exists()

    def versions(self) -> dict[str, str]:
        return {"Django": django.__version__}


CONTENDER = Seed


def poll(model: Any, record: Callable[[int], None]) -> None:
    from django.utils.timezone import now

    while True:
        due = model.objects.filter(status=PENDING, when__lte=now()).order_by("when")
        while batch := list(due.all()[:BATCH]):
            for task in batch:
                run_one(model, task, record)
        sleep(POLL_SECONDS)


def run_one(model: Any, task: Any, record: Callable[[int], None]) -> None:
    row = model.objects.filter(id=task.id)
    claim = row.filter(version=task.version, status=PENDING)
    if claim.update(status=RUNNING, version=task.version + 1):
        record(int(task.biz_num))
        row.filter(version=task.version + 1).delete()


def work(url: str) -> None:
    model, record = task_model(url), recorder()
    threads = [Thread(target=poll, args=(model, record), daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    work(sys.argv[1])
