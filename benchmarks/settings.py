"""The project that runs our own workers: its handlers, and everything else by default."""

import os

from benchmarks.address import django_database

SECRET_KEY = "only for measuring"  # noqa: S105
DATABASES = {"default": django_database(os.environ["DATABASE_URL"])}
if "BENCHMARK_KEEP_CONNECTIONS" in os.environ:
    DATABASES["default"] |= {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
if "BENCHMARK_HISTORY" in os.environ:
    DJANGO_TASKS = {"HISTORY": os.environ["BENCHMARK_HISTORY"]}
INSTALLED_APPS = ["django_tasks"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

HANDLERS = ("Noop", "Plain", "Atomic", "Batch", "Query", "Nap", "Busy", "Beat")
TASK_HANDLERS = [f"benchmarks.handlers.{name}" for name in HANDLERS]
