"""The settings of production: those of the project, and what the environment says."""

import environ
from mysite.settings import *  # noqa: F403
from mysite.settings import BASE_DIR

env = environ.FileAwareEnv()  # SECRET_KEY_FILE may name a file instead of SECRET_KEY; all may so

SECRET_KEY = env("SECRET_KEY")
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=[])
DATABASES = {"default": env.db("DATABASE_URL")}
STATIC_ROOT = BASE_DIR / "static"
