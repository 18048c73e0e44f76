"""The test and demo project. ``DATABASE_URL`` chooses the database; SQLite is the default."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import environ

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()

DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env("SECRET_KEY", default="for tests and the demo only")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "testserver"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_tasks",
    "testproject.shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "testproject.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

USE_TZ = env.bool("USE_TZ", default=True)
TIME_ZONE = env("TIME_ZONE", default="Asia/Shanghai")

# What Django 5.1 and later need so that SQLite serves several writers: readers never block the
# writer (WAL), and a transaction takes the write lock at its start instead of failing in its
# middle (IMMEDIATE).
SQLITE_OPTIONS = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}


def database(url: dict[str, Any]) -> dict[str, Any]:
    if url["ENGINE"].endswith("sqlite3"):
        url["OPTIONS"] = SQLITE_OPTIONS
        # A file, not memory: worker processes open the test database too.
        url["TEST"] = {"NAME": f"{url['NAME']}.test"}
    return url


DATABASES = {
    "default": database(env.db("DATABASE_URL", default=f"sqlite:///{BASE_DIR / 'db.sqlite3'}")),
}

DJANGO_TASKS: dict[str, Any] = {}
TASK_HANDLERS: list[str] = []

# How long a customer of the shop may take to pay, and how long after the payment its invoice goes
# out: until then the customer may still change the address.
SHOP_PAY_WITHIN = timedelta(minutes=30)
SHOP_SETTLED_AFTER = timedelta(minutes=5)
