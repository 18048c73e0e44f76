"""The settings of a project for neighbours that need one; ``BENCHMARK_NEIGHBOUR`` says for whom."""

import os
from typing import Any

from benchmarks.address import django_database

_WHO = os.environ["BENCHMARK_NEIGHBOUR"]

SECRET_KEY = "only for measuring"  # noqa: S105
DATABASES = {"default": django_database(os.environ["DATABASE_URL"])}
# Workers of these keep a connection a thread for as long as they run.
DATABASES["default"]["CONN_MAX_AGE"] = None
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", _WHO]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

Q_CLUSTER = {
    "name": "benchmark",
    "orm": "default",
    "workers": 2,
    "bulk": 100,
    "queue_limit": 1000,
    "recycle": 1_000_000,
    "save_limit": -1,
    "timeout": 60,
    "retry": 600,
    "log_level": "WARNING",
}

_BACKENDS = {
    "django_tasks_db": "django_tasks_db.DatabaseBackend",
    "django_ox": "django_ox.backend.OxBackend",
    "dj_queue": "dj_queue.backend.DjQueueBackend",
    "django_tasks": "django_tasks.backend.DatabaseBackend",
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "dj_queue": {
        "workers": [{"queues": "*", "threads": 4, "processes": 2}],
        "preserve_finished_jobs": False,
    },
    "django_tasks": {"MODULES": ["benchmarks.contenders.function"]},
}
TASKS: dict[str, Any] = {}
if _WHO in _BACKENDS:
    TASKS["default"] = {"BACKEND": _BACKENDS[_WHO], "OPTIONS": _OPTIONS.get(_WHO, {})}
