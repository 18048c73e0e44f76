"""The project that runs our own workers: its handlers, and everything else by default."""

import os

from benchmarks.address import django_database

SECRET_KEY = "only for measuring"  # noqa: S105
DATABASES = {"default": django_database(os.environ["DATABASE_URL"])}
INSTALLED_APPS = ["django_tasks"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

TASK_HANDLERS = ["benchmarks.handlers.Noop"]
