"""Settings of the site; the test says where its database and its notes are."""

from testproject.settings import database, env

SECRET_KEY = "for tests only"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = ["django_tasks"]
ROOT_URLCONF = "tests.environments.site.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": database(env.db("DATABASE_URL"))}
TASK_HANDLERS = ["tests.environments.site.tasks.Tick"]
DJANGO_TASKS = {"SHUTDOWN_TIMEOUT": 10}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(process)d %(threadName)s %(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
}
