"""The module that Celery's worker imports."""

from benchmarks.contenders.celery import make

app, task = make()
