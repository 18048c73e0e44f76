"""Settings of the workers of these tests: the test project, and handlers that keep a journal.

The test chooses databases and handlers through the environment of the process that it starts.
"""

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES, database, env

TASK_HANDLERS = env.list("TEST_HANDLERS", default=["tests.integration.handlers.ALL"])
if TASK_HANDLERS == ["tests.integration.handlers.ALL"]:
    TASK_HANDLERS = [
        f"tests.integration.handlers.{name}"
        for name in ("Run", "Gated", "Again", "Until", "Kill", "Fail", "Effect", "Slow", "Tick")
    ]
# What a worker needs: the admin took a quarter of the time in which each of a thousand starts.
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_tasks"]
MIDDLEWARE = []
ROOT_URLCONF = "django.contrib.auth.urls"

DJANGO_TASKS = {"PROCESSES": 1, "POLL_INTERVAL": 0.1, "LEASE": 30, "SHUTDOWN_TIMEOUT": 20}
DJANGO_TASKS["RELEASE"] = env("TEST_RELEASE", default="")

if env("SECOND_DATABASE_URL", default=""):
    DATABASES["second"] = database(env.db("SECOND_DATABASE_URL"))

if env("TEST_LOGGING", default=""):
    line = '{"level": "%(levelname)s", "message": "%(message)s"}'
    LOGGING = {
        "version": 1,
        "formatters": {"json": {"format": line}},
        "handlers": {"all": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["all"], "level": "INFO"},
    }
