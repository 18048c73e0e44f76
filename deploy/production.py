"""The settings of production: those of ``startproject``, and what the environment says."""

import environ
from shop.settings import *  # noqa: F403
from shop.settings import BASE_DIR, INSTALLED_APPS

env = environ.FileAwareEnv()  # SECRET_KEY_FILE may name a file instead of SECRET_KEY; all may so

SECRET_KEY = env("SECRET_KEY")
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=[])
DATABASES = {"default": env.db("DATABASE_URL")}
STATIC_ROOT = BASE_DIR / "static"

INSTALLED_APPS = [*INSTALLED_APPS, "django_tasks"]
TASK_HANDLERS = ["shop.tasks.EndPromotion"]
